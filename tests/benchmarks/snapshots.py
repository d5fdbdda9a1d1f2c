"""How long memory snapshots take to open, to account for, and to be drawn."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

from parsers import open_trace
from rules.analysis.analysis import Analysis
from rules.memory.summary import memory_of
from tests.parsers.large_snapshots import write_snapshot
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.memory.stack import MemoryStack

COLUMNS = 1920
FRAMES = 20


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds; ``frame`` is the worst of all zooms, for reducing all allocations to pixel columns."""

    bytes: int
    floor: float
    opening: float
    summary: float
    frame: float


def measure(allocations: int, folder: Path) -> Taken:
    """Write, pass over, open, account and draw one snapshot."""
    path = folder / "snapshot.pickle"
    write_snapshot(path, allocations)
    begun = time.perf_counter()
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    floor = time.perf_counter() - begun
    begun = time.perf_counter()
    trace = open_trace([path])
    opening = time.perf_counter() - begun
    begun = time.perf_counter()
    (summary,) = memory_of(Analysis(trace))
    taken = time.perf_counter() - begun
    assert summary.account is not None
    stack = MemoryStack.of(summary.account, next(each for each in trace.counters if "reserved" in each.name))
    frames = []
    for number in range(FRAMES):
        span = trace.duration / (1 << number)
        begun = time.perf_counter()
        stack.columns(Scale(trace.duration / 3, trace.duration / 3 + span, COLUMNS))
        frames.append(time.perf_counter() - begun)
    size = path.stat().st_size
    path.unlink()
    return Taken(size, floor, opening, taken, max(frames))
