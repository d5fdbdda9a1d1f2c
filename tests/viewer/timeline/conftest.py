"""A small made-up run for the timeline: a main thread, a stream, launches, a counter, steps and gaps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from parsers.model import Counter, Device, EventKind, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from rules.analysis.analysis import Analysis
from viewer.timeline.view import TimelineView

MS = 1_000_000


def times(*values: float) -> np.ndarray:
    """Milliseconds as ns."""
    return np.array([round(value * MS) for value in values], np.int64)


@pytest.fixture
def small_run() -> Trace:
    """Three steps of 10 ms; in each the host computes 6 ms while the GPU is idle, then launches four kernels."""
    builder = TraceBuilder()
    device = builder.device(Device(0, "GPU"))
    steps = builder.lane(Lane(LaneKind.STEPS, "Steps", process=7))
    regions = builder.lane(Lane(LaneKind.REGION, "Main thread regions", process=7, thread=7))
    operators = builder.lane(Lane(LaneKind.CPU_THREAD, "Main thread", process=7, thread=7))
    calls = builder.lane(Lane(LaneKind.CUDA_API, "Main thread CUDA calls", process=7, thread=7))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "GPU 0 stream 7", device=device, stream=7))
    other = builder.lane(Lane(LaneKind.OVERHEAD, "Profiler overhead", process=7, thread=9))
    name = builder.string
    for step in range(3):
        t = step * 10.0
        builder.add(times(t), times(t + 10), name(f"ProfilerStep#{step}"), steps, EventKind.STEP)
        builder.add(
            times(t, t + 6),
            times(t + 6, t + 10),
            np.array([name("prepare"), name("forward")]),
            regions,
            EventKind.REGION,
        )
        builder.add(
            times(t + 6, t + 6.1),
            times(t + 9, t + 8),
            np.array([name("aten::linear"), name("aten::addmm")]),
            operators,
            EventKind.CPU_OP,
        )
        launches = builder.add(
            times(*(t + 6.2 + 0.2 * n for n in range(4))),
            times(*(t + 6.3 + 0.2 * n for n in range(4))),
            name("cudaLaunchKernel"),
            calls,
            EventKind.API,
        )
        kernels = builder.add(
            times(*(t + 6.4 + 0.8 * n for n in range(4))),
            times(*(t + 7.1 + 0.8 * n for n in range(4))),
            name("void gemm_kernel<float>(int)"),
            stream,
            EventKind.KERNEL,
        )
        builder.link(kernels, launches)
    builder.add(times(3), times(3.5), name("flush"), other, EventKind.OVERHEAD)
    at = times(0, 5, 12, 20)
    builder.counters.append(Counter("GPU memory", "bytes", at, np.array([1e9, 2e9, 1.5e9, 3e9]), device=0))
    return builder.build()


@pytest.fixture
def view(qtbot: QtBot, small_run: Trace) -> Iterator[TimelineView]:
    """A shown timeline of the small run with its analysis, without animations."""
    timeline = TimelineView()
    qtbot.addWidget(timeline)
    timeline.set_animated(False)
    timeline.resize(1000, 500)
    timeline.show()
    qtbot.waitExposed(timeline)
    timeline.set_trace(small_run)
    timeline.set_analysis(Analysis(small_run))
    timeline.setFocus()
    yield timeline
    timeline.close()
