"""``python -m tests.benchmarks.drawing [EVENTS ...]``: frame times of the timeline while panning and zooming.

A frame is everything that is painted again when the view moves: overview, rulers, names and lanes of a window of 1920
x 1080 with 100 lanes, their labels and their gaps. Seconds depend on the machine, the ratio between sizes less so.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from parsers.model import Device, EventKind, EventTable, Lane, LaneKind, Trace
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import IdleTable
from rules.analysis.steps.analysed_time import AnalysedTime
from rules.terms import Culprit, CulpritKind

if TYPE_CHECKING:
    from viewer.timeline.view import TimelineView

SIZES = (100_000, 1_000_000, 10_000_000)
ZOOMS = {"whole run": 1.0, "1/16": 1 / 16, "1/400": 1 / 400, "1/20000": 1 / 20_000}
FRAMES = 60
STILL_MS = 400  # before a movement, as when somebody looks first
RUN_NS = 20_000_000_000
STREAMS, THREADS, LEVELS = 20, 40, 3  # 20 GPU streams, 40 threads with operators and API calls: 100 lanes
NAMES = 60


@dataclass(frozen=True)
class Times:
    """Frame times in ms of one size at one zoom."""

    events: int
    zoom: str
    pan: np.ndarray  # frames x (wall clock, time of the thread)
    zooming: np.ndarray


def synthetic(count: int, seed: int = 1) -> Trace:
    """A recording of ``count`` events on 100 lanes: streams, threads with nested operators, API calls."""
    random = np.random.default_rng(seed)
    lanes = [Lane(LaneKind.CPU_THREAD, f"thread {n}", process=1, thread=n + 1) for n in range(THREADS)]
    lanes += [Lane(LaneKind.CUDA_API, f"thread {n}", process=1, thread=n + 1) for n in range(THREADS)]
    lanes += [Lane(LaneKind.GPU_STREAM, f"stream {n}", device=n % 8, stream=n) for n in range(STREAMS)]
    rows = THREADS * LEVELS + THREADS + STREAMS
    each = count // rows
    columns: list[tuple[np.ndarray, ...]] = []
    for index, lane in enumerate(lanes):
        levels = LEVELS if lane.kind is LaneKind.CPU_THREAD else 1
        kind = {LaneKind.CPU_THREAD: EventKind.CPU_OP, LaneKind.CUDA_API: EventKind.API}.get(
            lane.kind, EventKind.KERNEL
        )
        for depth in range(levels):
            steps = random.exponential(1.0, 2 * each) * np.where(random.random(2 * each) < 0.002, 40, 1)
            edges = np.cumsum(steps)
            edges = (edges * (RUN_NS / edges[-1])).astype(np.int64)
            start, end = edges[0::2], np.maximum(edges[1::2], edges[0::2] + 1)
            end[:-1] = np.minimum(end[:-1], start[1:])
            name = random.integers(0, NAMES, each).astype(np.int32)
            full = (start, end, name, np.full(each, index, np.int32), np.full(each, depth, np.int32))
            columns.append((*full, np.full(each, kind, np.uint8)))
    start, end, name, lane_column, depth_column, kind_column = (
        np.concatenate(part) for part in zip(*columns, strict=True)
    )
    nowhere = np.full(len(start), -1, np.int64)
    table = EventTable(start, end, name, lane_column, depth_column, kind_column, nowhere)
    strings = tuple(f"void at::native::operation_{n}_kernel<float>(int)" for n in range(NAMES))
    return Trace(strings, table, tuple(lanes), tuple(Device(n, "GPU") for n in range(8)))


def with_gaps(trace: Trace, count: int) -> Analysis:
    """An analysis with ``count`` idle intervals on each device and no steps, without analysing anything."""
    random = np.random.default_rng(2)
    parts = []
    for device in range(len(trace.devices)):
        edges = np.sort(random.integers(0, RUN_NS, 2 * count))
        parts.append((edges[0::2], edges[1::2], np.full(count, device), random.integers(0, 7, count)))
    start, end, device_column, cause = (np.concatenate(part) for part in zip(*parts, strict=True))
    none = np.full(len(start), -1, np.int64)
    culprit = np.zeros(len(start), np.int32)
    blamed = Culprit(CulpritKind.REGION, "tokenize")
    idle = IdleTable(start, end, device_column, cause.astype(np.uint8), culprit, none, none, (blamed,))
    analysis = Analysis(trace)
    Analysis.idle.keep(analysis, idle)
    Analysis.steps.keep(analysis, ())
    Analysis.analysed.keep(analysis, AnalysedTime(0, RUN_NS))
    return analysis


def measure(count: int, rounds: int = 1) -> Iterator[Times]:
    """Frame times of one size at every zoom, so many times; also tells, on standard error, what the index cost."""
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QApplication

    from viewer.appearance import theme
    from viewer.timeline.geometry.drawing_index import build_index
    from viewer.timeline.scene import Scene
    from viewer.timeline.view import TimelineView

    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    theme.apply(app, "dark")
    trace = synthetic(count)
    began = time.perf_counter()
    index = build_index(trace)
    built = time.perf_counter() - began
    view = TimelineView()
    view.set_animated(False)
    view.resize(1920, 1080)
    view.show()
    view.state.set_end(trace.duration)
    view.state.set_scene(Scene(trace, index))
    view.set_analysis(with_gaps(trace, max(count // 200, 10)))
    view.state.set_compact(True)
    while view.state.scene is None or not view.state.scene.gaps:
        QTest.qWait(20)
    rows = sum(len(shown.placed.rows) for shown in view.canvas.shown())
    print(
        f"{len(trace.events):,} events: index {built:.2f} s, {index.nbytes / len(trace.events):.1f} bytes an event;"
        f" {rows} rows visible",
        file=sys.stderr,
    )

    gc.collect()
    gc.freeze()  # as the program does when its window is there
    for _ in range(rounds):
        for zoom, share in ZOOMS.items():
            yield Times(len(trace.events), zoom, *moved(view, trace.duration, share))
    view.close()


def moved(view: TimelineView, duration: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Frame times (ms; wall clock, work) while a share of a recording is panned, and while it is zoomed."""
    from PySide6.QtCore import QCoreApplication, QEvent
    from PySide6.QtTest import QTest

    from viewer.timeline.geometry.scale import Scale

    def frame(t0: float, span: float) -> tuple[float, float]:
        begun, worked = time.perf_counter(), time.thread_time()
        view.state.look_at(Scale(t0, t0 + span, 1), animate=False, remember=False)
        QCoreApplication.sendPostedEvents(view, QEvent.Type.UpdateRequest.value)  # all that changed, once
        return (time.perf_counter() - begun) * 1000, (time.thread_time() - worked) * 1000

    span, start = duration * share, duration * 0.37 if share < 1 else 0.0
    frame(start, span)
    QTest.qWait(STILL_MS)
    # whole pixels, as gestures move
    step = round(0.02 * view.state.scale.width) * view.state.scale.ns_per_pixel
    pan = [frame(start + step * number, span) for number in range(FRAMES)]
    frame(start, span)
    QTest.qWait(STILL_MS)
    zooming = [frame(start, span * 0.985 ** (number + 1)) for number in range(FRAMES)]
    return np.array(pan), np.array(zooming)


def main() -> None:
    """Measure the sizes of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.drawing", description=__doc__)
    parser.add_argument("events", nargs="*", type=int, default=SIZES, help="sizes to measure")
    report(parser.parse_args().events)


def report(sizes: Sequence[int]) -> None:
    """Print one table; the last lines compare the largest size with the smallest."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    worst: dict[int, float] = {}
    lines = []
    for size in sizes:
        for times in measure(size):
            work = times.pan[:, 1], times.zooming[:, 1]
            worst[size] = max(worst.get(size, 0.0), *(float(np.percentile(each, 99)) for each in work))
            columns = (times.pan[:, 0], times.zooming[:, 0], *work)
            cells = "".join(f"{np.median(part):>9.1f}{np.percentile(part, 99):>8.1f}" for part in columns)
            lines.append(f"{times.events:>12,}  {times.zoom:<10}{cells}")
    print(
        f"\n{'events':>12}  {'zoom':<10}{'pan p50':>9}{'p99':>8}{'zoom p50':>9}{'p99':>8}"
        f"{'work: pan':>10}{'p99':>7}{'zoom':>9}{'p99':>8}   ms"
    )
    print("\n".join(lines))
    first, last = min(worst), max(worst)
    print(
        f"worst p99 of the work: {worst[last]:.1f} ms, {worst[last] / worst[first]:.2f} times that of {first:,} events"
    )
    print(
        "work: processor time of the painting thread, the same frames without what else the machine was doing"
    )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
