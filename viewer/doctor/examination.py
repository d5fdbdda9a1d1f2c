"""Opens made-up recordings of growing size in every way, each within a limit of time, and looks what is left behind."""

from __future__ import annotations

import queue
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from parsers.files.private_folder import PrivateFolder
from parsers.helper_process import HelperProcess
from parsers.model import TraceError
from parsers.model.late import dataclass
from parsers.model.units import duration, size
from parsers.storage.cache import MIN_EVENTS
from viewer.doctor.made_up import MADE_UP
from viewer.doctor.trial import AGAIN, COMMAND, MAKING, READING, WAYS, WINDOW, Answered, Asked

SIZES = (1_000, 1_000_000, 20_000_000, 100_000_000, 500_000_000)
ROOM = 5  # times the largest recording: the file, its columns, the cache
START_S, BYTES_PER_S = 30.0, 2e6  # what any machine can do; beyond it nothing goes on any more
SLOW_START_S, SLOW_BYTES_PER_S = 5.0, 15e6
FROM_CACHE = 0.8  # of the first time, for recordings that are kept
_LOOK_EVERY_S = 0.05
_ENDING_S = 2.0
_TRIAL = f"{__package__}.trial"


@dataclass(frozen=True, slots=True)
class Trial:
    """One recording opened in one way, and how long that took; ``bare`` is how long it takes to read its bytes."""

    kind: str
    bytes: int
    way: str
    seconds: float
    bare: float
    broken: str = ""
    slow: str = ""

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / max(self.seconds, 1e-9)


def sizes_up_to(largest: int) -> list[int]:
    """The sizes that are tried, in bytes: those below the largest, and itself."""
    return [*(each for each in SIZES if each < largest), largest]


def examine(largest: int, limit_s: float | None, tell: Callable[[str], None]) -> Iterator[Trial]:
    """Try all of it, the smallest first; raises ``TraceError`` where there is no room.

    Everything lies in one private folder, which is gone when this ends, and however it ends.
    """
    place = PrivateFolder()
    try:
        _require_room(place.path, largest)
        for wanted in sizes_up_to(largest):
            for kind in MADE_UP:
                yield from _of_one_recording(place.path, kind, wanted, limit_s, tell)
    finally:
        shutil.rmtree(place.path, ignore_errors=True)


def _require_room(folder: Path, largest: int) -> None:
    free, needed = shutil.disk_usage(folder).free, ROOM * largest
    if free < needed:
        raise TraceError(
            Path(tempfile.gettempdir()),
            f"Only {size(free)} are free there, and this needs {size(needed)}.",
            "Name a smaller recording with --largest, or another folder in TMPDIR.",
        )


def _of_one_recording(
    folder: Path, kind: str, wanted: int, limit_s: float | None, tell: Callable[[str], None]
) -> Iterator[Trial]:
    path = folder / f"made-up{MADE_UP[kind][0]}"
    try:
        tell(f"generating {kind} of {size(wanted)}")
        limit = limit_s or START_S + wanted / BYTES_PER_S
        made = _tried(Asked(MAKING, str(path), str(folder / "making"), kind, wanted), limit)
        if made.broken:
            yield Trial(kind, wanted, MAKING, made.seconds, 0.0, made.broken)
            return
        large = path.stat().st_size
        bare = _tried(Asked(READING, str(path), str(folder / "making")), limit).seconds
        events: dict[str, int] = {}
        first = 0.0
        for way in WAYS:
            tell(f"{kind} of {size(large)}: {way}")
            home = folder / ("command" if way in (COMMAND, AGAIN) else way)
            found = _tried(Asked(way, str(path), str(home)), limit)
            events[way] = found.events
            broken = found.broken
            if not broken and found.events != events[WINDOW] and events[WINDOW]:
                broken = f"{found.events:,} events, and {events[WINDOW]:,} in the window"
            first = found.seconds if way == COMMAND and found.events >= MIN_EVENTS else first
            slow = _slowness(large, found.seconds)
            if way == AGAIN and first and found.seconds > FROM_CACHE * first:
                slow = "not faster the second time"
            yield Trial(kind, large, way, found.seconds, bare, broken, slow)
            if way != COMMAND:
                shutil.rmtree(home, ignore_errors=True)
    finally:
        path.unlink(missing_ok=True)


def _slowness(large: int, seconds: float) -> str:
    return "slow" if seconds > SLOW_START_S + large / SLOW_BYTES_PER_S else ""


@dataclass(frozen=True, slots=True)
class _Found:
    seconds: float
    events: int = 0
    broken: str = ""


def _tried(asked: Asked, limit_s: float) -> _Found:
    """Have a process do it; end that process and what it started when the limit is over, or when this one is to end."""
    begun = time.monotonic()
    helper = HelperProcess(_TRIAL, msgspec.json.encode(asked), own_group=True)
    try:
        answer = _answer(helper, begun + limit_s)
    finally:
        code = helper.end()
    seconds = time.monotonic() - begun
    if answer is None:
        left = _processes_left(Path(asked.folder))
        others = f", and {len(left)} processes that it started are still running" if left else ""
        return _Found(seconds, broken=f"hangs: ended after {duration(round(limit_s * 1e9))}{others}")
    if answer == b"":
        return _Found(seconds, broken=f"ended by itself with exit code {code}")
    told = msgspec.json.decode(answer, type=Answered)
    return _Found(told.seconds, told.events, told.problem or _left_behind(Path(asked.folder)))


def _answer(helper: HelperProcess, until: float) -> bytes | None:
    """What it says; None when it says nothing in time, empty when it ended without a word."""
    said = b""
    while True:
        try:
            piece = helper.next(_LOOK_EVERY_S)
        except queue.Empty:
            if time.monotonic() > until:
                return said or None
            continue
        if piece is None:
            return said
        said = piece


def _left_behind(folder: Path) -> str:
    processes = _processes_left(folder)
    files = [each for each in (folder / "temporary").rglob("*") if each.is_file()]
    parts = [f"{len(processes)} processes"] if processes else []
    parts += [f"{len(files)} temporary files"] if files else []
    return f"leaves {' and '.join(parts)} behind" if parts else ""


def _processes_left(folder: Path) -> list[int]:
    """Those that are still there after the moment that they have to end in."""
    until = time.monotonic() + _ENDING_S
    while (found := _processes_in(folder)) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
    return found


def _processes_in(folder: Path) -> list[int]:
    """Processes that were started with this folder as their place for temporary files; none where /proc is missing."""
    needle = f"TMPDIR={folder / 'temporary'}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
