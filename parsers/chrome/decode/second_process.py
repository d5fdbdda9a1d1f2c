"""Reads every other chunk of a large file in a second process, which shares nothing but the file."""

from __future__ import annotations

import os
import queue
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from parsers.chrome.decode.reading import Reading
from parsers.chrome.decode.stream import Chunk, EventStream
from parsers.files.base import Source
from parsers.files.signatures import USUAL_GROWTH
from parsers.files.source import open_bytes
from parsers.model import Progress
from parsers.model.late import dataclass

if TYPE_CHECKING:
    from parsers.helper_process import HelperProcess

WORTH_A_PROCESS = 80 << 20  # unpacked; starting a process costs about as much as reading a quarter of this
HEAD_START = 16  # chunks that the first process reads while the second one starts
_POLL_S = 0.05


class Share(msgspec.Struct, frozen=True):
    """Which chunks of which file the second process reads."""

    path: str
    compression: str
    most_bytes: int
    head_start: int

    def holds(self, chunk: Chunk) -> bool:
        return self._takes(chunk.number) and not chunk.last

    def stream(self, file: IO[bytes], is_helper: bool) -> EventStream:
        """The chunks of the file; one that the other process reads is passed over where the file is not packed."""

        def others(number: int) -> bool:
            return self._takes(number) != is_helper

        return EventStream(file, most_bytes=self.most_bytes, passed_over=None if self.compression else others)

    def _takes(self, number: int) -> bool:
        return number >= self.head_start and number % 2 == 1


@dataclass(frozen=True, slots=True)
class SecondProcess:
    """A running second process; ``result`` waits for its share."""

    share: Share
    helper: HelperProcess

    def result(self, progress: Progress, fraction: float) -> bytes | None:
        """The packed share; None when the process failed, or met the end of the list before the end of the file."""
        while True:
            progress.step(fraction, "reading events")
            try:
                answer = self.helper.next(_POLL_S)
            except queue.Empty:
                continue
            return answer if answer and self.helper.process.wait() == 0 else None

    def stop(self) -> None:
        self.helper.end()


def start(source: Source, most_bytes: int) -> SecondProcess | None:
    """Start one where the file is large enough and there is a processor for it; None otherwise."""
    expected = source.path.stat().st_size * (USUAL_GROWTH if source.compression else 1)
    if expected < WORTH_A_PROCESS or not _has_free_processor():
        return None
    from parsers.helper_process import HelperProcess

    share = Share(str(source.path), source.compression, most_bytes, HEAD_START)
    try:
        helper = HelperProcess(__name__, msgspec.json.encode(share), pieces=lambda pipe: [pipe.read()])
    except (OSError, ValueError):  # no process, or a name that no message can hold
        return None
    return SecondProcess(share, helper)


def serve(request: bytes, answer: IO[bytes]) -> None:
    """What the second process does: read its share and hand it over."""
    from parsers.chrome.decode.exchange import packed

    share = msgspec.json.decode(request, type=Share)
    reading = Reading()
    with open_bytes(Source(Path(share.path), b"", share.compression)) as file:
        reading.read(share.stream(file, is_helper=True), share.holds, lambda _: None)
    if not reading.ended_early:
        answer.write(packed(reading.columns, reading.series))


def _has_free_processor() -> bool:
    """Whether there is a second processor, and others do not keep it busy."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        busy = os.getloadavg()[0]
    except (AttributeError, OSError):
        busy = 0.0
    return processors >= 2 and busy < processors
