"""How long memory snapshots take to open, to account for, and to be drawn in the window."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from parsers import open_trace
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.memory.summary import memory_of
from tests.parsers.large_snapshots import write_snapshot

GIVE_UP_S = 120
MOMENTS = 40


@dataclass(frozen=True, slots=True)
class Frames:
    """Processor time of the window's thread in ms, at the 99th percentile of each movement's frames, the worst one.

    ``timeline`` is everything that is painted again while one pans and zooms; ``allocations`` the tab with its table
    and its segments. ``moment`` is seconds until the table tells another moment.
    """

    timeline: float
    allocations: float
    moment: float


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds; ``work`` is processor time of opening."""

    bytes: int
    floor: float
    opening: float
    work: float
    summary: float
    frames: Frames


def measure(allocations: int, folder: Path) -> Taken:
    """Write, pass over, open, account and draw one snapshot."""
    path = folder / "snapshot.pickle"
    write_snapshot(path, allocations)
    begun = time.perf_counter()
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    floor = time.perf_counter() - begun
    begun, worked = time.perf_counter(), time.process_time()
    trace = open_trace([path])
    opening, work = time.perf_counter() - begun, time.process_time() - worked
    begun = time.perf_counter()
    memory_of(Analysis(trace))
    taken = time.perf_counter() - begun
    del trace
    found = Taken(path.stat().st_size, floor, opening, work, taken, _frames(path))
    path.unlink()
    return found


def _frames(path: Path) -> Frames:
    """Open it in a window of 1920 x 1080 with the tab of allocations, and move."""
    from tests.benchmarks.drawing import ZOOMS, moved
    from viewer.app import application, open_window
    from viewer.documents.document import Stage
    from viewer.panels.tabs.allocations import AllocationsPanel
    from viewer.timeline.selection import Moment

    application()
    window = open_window()
    window.resize(1920, 1080)
    window.open([path])
    _until(lambda: window.document.stage is Stage.READY and not window.jobs.busy)
    window.panels.show_panel(AllocationsPanel.title)
    panel = window.findChild(AllocationsPanel)
    trace = window.document.trace
    assert panel is not None
    assert trace is not None
    _until(lambda: len(panel.table.model().index(0, 0).data() or "") > 0 and not window.jobs.busy)
    window.timeline.set_animated(False)
    moves = [moved(window.timeline, trace.duration, share) for share in ZOOMS.values()]
    paints, answers = [], []
    for when in np.linspace(0, trace.duration, MOMENTS).astype(int).tolist():
        begun = time.perf_counter()
        window.document.selection.choose_moment(Moment(0, when))
        _until(lambda: not window.jobs.busy)
        answers.append(time.perf_counter() - begun)
        worked = time.thread_time()
        panel.repaint()
        paints.append((time.thread_time() - worked) * 1000)
    window.close()
    worst = max(float(np.percentile(part[:, 1], 99)) for move in moves for part in move)
    return Frames(worst, float(np.percentile(paints, 99)), float(np.median(answers)))


def _until(done: Callable[[], bool]) -> None:
    from PySide6.QtTest import QTest

    waited = time.perf_counter()
    while not done():
        assert time.perf_counter() - waited < GIVE_UP_S
        QTest.qWait(2)
