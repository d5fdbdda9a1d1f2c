"""Reads every other chunk of a large file in a second process, which shares nothing but the file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from parsers.base import Source
from parsers.chrome.decode.exchange import packed
from parsers.chrome.decode.reading import Reading
from parsers.chrome.decode.stream import Chunk, EventStream
from parsers.model import Progress
from parsers.signatures import USUAL_GROWTH
from parsers.source import open_bytes

LEAST_BYTES = 80 << 20  # unpacked; starting a process costs about as much as reading a quarter of this
HEAD_START = 16  # chunks that the first process reads while the second one starts
FROZEN_WORD = (
    "--second-process"  # the frozen program has no interpreter to run: it starts itself with this word
)
_POLL_S = 0.05
_CODE = """import sys
sys.path.insert(0, sys.argv[1])
from parsers.chrome.decode.second_process import serve
serve(sys.argv[2:])
"""


def is_for_second(chunk: Chunk, head_start: int) -> bool:
    """Which chunks the second process reads."""
    return chunk.number >= head_start and chunk.number % 2 == 1 and not chunk.last


@dataclass(slots=True)
class SecondProcess:
    """A running second process; ``result`` waits for its share."""

    process: subprocess.Popen[bytes]
    head_start: int
    _answer: list[bytes] = field(default_factory=list)
    _reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def takes(self, chunk: Chunk) -> bool:
        """Whether this process reads a chunk."""
        return is_for_second(chunk, self.head_start)

    def result(self, progress: Progress, fraction: float) -> bytes | None:
        """The packed share; None when the process failed, or met the end of the list before the end of the file."""
        while self._reader.is_alive():
            self._reader.join(_POLL_S)
            progress.step(fraction, "reading events")
        code = self.process.wait()
        return self._answer[0] if code == 0 and self._answer and self._answer[0] else None

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()
        self._reader.join()
        self.process.wait()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            self._answer.append(pipe.read())


def start(source: Source, most_bytes: int) -> SecondProcess | None:
    """Start one where the file is large enough and there is a processor for it; None otherwise."""
    expected = source.path.stat().st_size * (USUAL_GROWTH if source.compression else 1)
    if expected < LEAST_BYTES or not _has_free_processor() or not sys.executable:
        return None
    stated = [str(source.path), source.compression, str(most_bytes), str(HEAD_START)]
    if getattr(sys, "frozen", False):
        command = [sys.executable, FROZEN_WORD, *stated]
    else:
        command = [sys.executable, "-I", "-c", _CODE, str(Path(__file__).resolve().parents[3]), *stated]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    return SecondProcess(process, HEAD_START)


def serve(arguments: list[str]) -> None:
    """What the second process does: read its share and write it to the standard output."""
    path, compression, most_bytes, head_start = arguments
    first = int(head_start)
    reading = Reading()
    with open_bytes(Source(Path(path), b"", compression)) as file:
        stream = EventStream(file, most_bytes=int(most_bytes))
        reading.read(stream, lambda chunk: is_for_second(chunk, first), lambda _: None)
    if not reading.ended_early:
        sys.stdout.buffer.write(packed(reading.columns, reading.series))
        sys.stdout.buffer.flush()


def _has_free_processor() -> bool:
    """Whether there is a second processor, and others do not keep it busy."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        busy = os.getloadavg()[0]
    except (AttributeError, OSError):
        busy = 0.0
    return processors >= 2 and busy < processors
