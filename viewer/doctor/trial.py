"""One trial, in a process of its own: it makes up a recording, or opens it in one of the ways the program has."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

BLOCK_BYTES = 1 << 20
MAKING, READING = "generate it", "read its bytes"
WINDOW, COMMAND, AGAIN, ALONE = "window", "command line", "again", "one process"
WAYS = (WINDOW, COMMAND, AGAIN, ALONE)


class Asked(msgspec.Struct, frozen=True):
    """What to do with a file; caches and temporary files go into ``folder``."""

    way: str
    path: str
    folder: str
    kind: str = ""
    size: int = 0


class Answered(msgspec.Struct, frozen=True):
    """How it went; ``problem`` is empty where it went well."""

    seconds: float
    events: int = 0
    problem: str = ""


def serve(request: bytes, pipe: IO[bytes]) -> None:
    """Do what is asked, in the folder that is named and nowhere else."""
    asked = msgspec.json.decode(request, type=Asked)
    temporary = Path(asked.folder) / "temporary"
    temporary.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(temporary)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        os.environ[name] = asked.folder
    os.environ["TMPDIR"] = str(temporary)
    begun = time.perf_counter()
    try:
        events, problem = _DOING[asked.way](asked), ""
    except Exception as error:
        events, problem = 0, f"{type(error).__name__}: {error}"
    pipe.write(msgspec.json.encode(Answered(time.perf_counter() - begun, events, problem)) + b"\n")
    pipe.flush()


def _make_up(asked: Asked) -> int:
    from viewer.doctor.made_up import MADE_UP

    MADE_UP[asked.kind][1](Path(asked.path), asked.size)
    return 0


def _read_bytes(asked: Asked) -> int:
    with open(asked.path, "rb", buffering=0) as file:
        while file.read(BLOCK_BYTES):
            pass
    return 0


def _in_the_window(asked: Asked) -> int:
    from parsers.model import Progress
    from rules.terms import DEFAULTS
    from viewer.loading.loader import opened

    read = opened([Path(asked.path)], Progress(), lambda _: None, DEFAULTS)
    count = len(read.trace.events)
    if read.process is not None:
        read.process.close()
    return count


def _in_a_command(asked: Asked) -> int:
    from parsers.model import Progress
    from viewer.loading.loader import read_apart

    return len(read_apart([Path(asked.path)], Progress()).events)


def _alone(asked: Asked) -> int:
    from parsers import open_trace

    return len(open_trace([Path(asked.path)]).events)


_DOING: dict[str, Callable[[Asked], int]] = {
    MAKING: _make_up,
    READING: _read_bytes,
    WINDOW: _in_the_window,
    COMMAND: _in_a_command,
    AGAIN: _in_a_command,
    ALONE: _alone,
}
