"""No promise passes what is physically possible, whatever was recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st

from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import length, union
from rules.fixes.plan import MAX_GAIN, MAX_GAIN_ONCE, Plan, make_plan
from rules.replay.replay import Change
from rules.verdict.promises import about_replay, first_step, worded
from tests.examples import examples
from tests.rules.builder import AUTOGRAD, MAIN, TinyTrace

# The cases lie on either side of these.
MAX_SPEEDUP = 1_000.0
HOST_UNSURE = 1.2

KERNELS = (
    "volta_sgemm_64x64_nn",
    "void vectorized_elementwise_kernel<4>",
    "void multi_tensor_apply_kernel<1>",
    "double_kernel<double>",
    "softmax_kernel",
)
REGIONS = ("load_batch", "tokenize", "forward", "optimizer", "logging")
# kind, length, its part on the CPU, name, second stream, second thread, blocking
Piece = tuple[str, float, float, int, bool, bool, bool]
pieces = st.lists(
    st.tuples(
        st.sampled_from(["kernels", "kernels", "kernel", "copy", "wait", "silence", "allocation", "region"]),
        st.floats(0, 1),
        st.floats(0, 1),
        st.integers(0, 4),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    min_size=3,
    max_size=14,
)
NOTHING_BUT_A_COPY: list[Piece] = [
    ("copy", 0.5354681810955174, 0.0, 0, False, False, False),
    ("kernels", 0.0, 1.0, 0, False, False, False),
    ("kernels", 0.0, 1.0, 0, False, False, False),
]
COPY_OF_UNKNOWN_SIZE: list[Piece] = [
    ("kernels", 0.0, 0.95, 3, True, False, True),
    ("copy", 0.0, 0.5, 0, False, False, True),
]
LONG_WAIT: list[Piece] = [
    ("kernels", 0.1, 0.9, 1, False, False, False),
    ("silence", 1.0, 0.0, 0, False, False, False),
    ("wait", 0.5, 0.0, 0, False, False, True),
]


def recorded(body: Sequence[Piece], count: int, step_us: float, gpu: float, marked: bool) -> Trace:
    """``count`` steps of these pieces; ``gpu`` is by how much longer or shorter the GPU's operations are than usual."""
    trace = TinyTrace()
    unit = step_us / 40
    for number in range(count):
        trace.shift = number * step_us
        if marked:
            trace.step(0, step_us, f"ProfilerStep#{number}")
        at = free = 0.0
        for kind, long, part, name, other_stream, other_thread, blocking in body:
            if at > 0.95 * step_us:
                break
            stream, thread = (20 if other_stream else 7), (AUTOGRAD if other_thread else MAIN)
            if kind in ("kernels", "kernel"):
                for _ in range(1 + int(part * 20) if kind == "kernels" else 1):
                    begin = max(at + 6, free)
                    free = begin + long * (10 if kind == "kernels" else unit) * gpu
                    trace.operation(begin, free, KERNELS[name], at, stream=stream, thread=thread)
                    at += 7
            elif kind == "copy":
                begin = max(at + 6, free)
                free = begin + long * unit * gpu
                way = "HtoD" if name % 2 else "DtoH"
                trace.copy(begin, free, way, at, stream=stream, thread=thread, pageable=blocking)
                at = free + 5 if blocking else at + 7
            elif kind == "wait":
                end = max(at + 4, free + 2)
                name_of_call = "cudaStreamSynchronize" if blocking else "cudaDeviceSynchronize"
                trace.call(at, end, name_of_call, thread)
                at = end + 1
            elif kind == "silence":
                at += long * 20 * unit
            elif kind == "allocation":
                trace.call(at, at + long * unit + 1, "cudaMalloc", thread)
                at += long * unit + 2
            else:
                trace.region(at, at + long * unit * 6 + 1, REGIONS[name], thread)
                at += 0.5
    trace.shift = 0.0
    return trace.build()


def left_on_gpu(plan: Plan, changes: list[Change]) -> float:
    """For how long the busiest stream works in a step after some changes, ns: counted from its operations."""
    overlay, device = plan.replay.overlay(changes), plan.replay.device
    return float(np.bincount(device.stream, overlay.duration * overlay.present).max()) / overlay.steps


def kernels_on_gpu(plan: Plan) -> float:
    """For how long a GPU runs kernels in a step as recorded, ns: the union over all its streams."""
    device = plan.replay.device
    kernels = device.alone > 0
    by_device = [
        length(union(device.start[mine], device.end[mine]))
        for each in np.unique(device.device).tolist()
        for mine in [kernels & (device.device == each)]
    ]
    return max(by_device, default=0) / plan.replay.steps


def leaves_the_gpu(plan: Plan, changes: list[Change]) -> bool:
    before, after = plan.replay.usual, plan.replay.overlay(changes)
    return (
        after.turns
        and after.steps == before.steps
        and np.array_equal(before.duration, after.duration)
        and np.array_equal(before.present, after.present)
    )


@examples(15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    body=pieces,
    count=st.sampled_from([1, 2, 3, 6]),
    step_us=st.sampled_from([300.0, 5_000.0, 1_000_000.0]),
    gpu=st.sampled_from([1.0, 0.001, 30.0]),
    marked=st.booleans(),
)
@example(LONG_WAIT, 6, 1_000_000.0, 0.001, True)
@example(LONG_WAIT, 1, 1_000_000.0, 0.001, False)
@example(NOTHING_BUT_A_COPY, 1, 300.0, 1.0, False)
@example(COPY_OF_UNKNOWN_SIZE, 2, 5_000.0, 1.0, False)
def test_no_promise_passes_what_the_work_that_remains_on_the_gpu_allows(
    body: list[Piece], count: int, step_us: float, gpu: float, marked: bool
) -> None:
    analysis = Analysis(recorded(body, count, step_us, gpu, marked))
    plan = make_plan(analysis)
    assert plan.crashed == ()
    for finding in diagnose(analysis.trace).findings:
        assert 0 <= finding.ceiling_ns <= max(finding.window_ns, 0)
        assert finding.speedup_at_most is None or 1.0 <= finding.speedup_at_most <= MAX_SPEEDUP
    assume(plan.promises)

    most = MAX_GAIN if any(span.numbers for span in plan.replay.spans) else MAX_GAIN_ONCE
    for promise in plan.promises:
        told = (promise.low, promise.expected, promise.high, promise.after_others)
        assert all(math.isfinite(each) and each > 0 for each in told)
        assert promise.low <= promise.expected <= promise.high <= most
        likely = [promise.proposal.expected]
        far = [promise.proposal.high or promise.proposal.expected]
        left = min(left_on_gpu(plan, likely), left_on_gpu(plan, far))
        if leaves_the_gpu(plan, likely) and leaves_the_gpu(plan, far):
            left = max(left, kernels_on_gpu(plan))
        assert left > 0
        limit = plan.replay.recorded_ns / (plan.replay.scale * left) * (1 + 1e-6)
        assert promise.expected <= limit
        assert promise.high <= HOST_UNSURE * limit  # no step's time is known better without the recorder

    outcome = plan.predict([each.id for each in plan.promises])
    changes = [each.proposal.expected for each in plan.promises]
    assert 0 < outcome.least_ns <= outcome.after_ns * (1 + 1e-9)
    assert outcome.after_ns <= outcome.most_ns * (1 + 1e-9)
    assert math.isfinite(outcome.most_ns)
    assert outcome.after_ns >= plan.replay.scale * left_on_gpu(plan, changes) * (1 - 1e-6)


def taken_away(silence_us: float, marked: bool = True) -> Plan:
    """Six steps, or a recording in which nothing repeats, of 160 us of work and a silence."""
    trace = TinyTrace()
    length_us = silence_us + 500
    for number in range(6 if marked else 1):
        trace.shift = number * length_us
        if marked:
            trace.step(0, length_us, f"ProfilerStep#{number}")
        trace.region(0, silence_us, "pack_results")
        trace.kernels(silence_us + 10, 40, 4, 10)
        trace.call(silence_us + 410, silence_us + 470, "cudaStreamSynchronize")
    trace.shift = 0.0
    return make_plan(Analysis(trace.build()))


@pytest.mark.parametrize(("silence_us", "promised"), [(100_000, True), (10_000_000, False)])
def test_where_hardly_anything_of_a_step_is_left_no_factor_is_told(silence_us: float, promised: bool) -> None:
    plan = taken_away(silence_us)

    assert bool(plan.promises) is promised
    assert bool(plan.withheld) is not promised
    told = about_replay(plan)
    assert ("too little would be left" in told) is not promised
    if promised:
        assert worded(plan.promises[0]).startswith("about ")
    else:
        assert "10.0 s of CPU work in a step, out of 10.0 s" in told
        assert first_step(plan, diagnose(plan.replay.analysis.trace)) == ""


def test_together_fixes_never_take_less_time_than_the_gpu_works() -> None:
    plan = taken_away(100_000)
    outcome = plan.predict([each.id for each in plan.promises])

    changes = [each.proposal.high or each.proposal.expected for each in plan.promises]
    assert outcome.least_ns >= left_on_gpu(plan, changes) * (1 - 1e-6)
    assert left_on_gpu(plan, []) == pytest.approx(160_000, rel=1e-6)
