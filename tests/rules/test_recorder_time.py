"""The recorder's part of the CPU's time: records, Python's frames, and steps in which the CPU was slower."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.model import EventKind, LaneKind
from rules.analysis.analysis import Analysis
from rules.analysis.recording.recording_costs import MAX_OF_GAP
from rules.findings.base import Category
from rules.replay.recorder import ENOUGH_FRAMES, buffer_requests
from rules.replay.replay import Replay, replay_of
from tests.examples import one_of
from tests.opened import diagnosed
from tests.rules.builder import TinyTrace, steps

# The cases lie on either side of these.
MAX_FRAME_SHARE = 0.8
USUAL_FRAME_NS = 1_000.0

BETWEEN_US = 200.0  # launches, without frames
ROUNDS = 20  # launches of a step


def program(frames: int, each_us: float, own_us: float = BETWEEN_US) -> Replay:
    """Steps with ``frames`` nested frames before each launch, which take ``each_us`` apiece to write down."""
    trace = TinyTrace()
    writing = frames * each_us
    for number in range(4):
        at = 0.0
        begin = trace.shift
        for _ in range(ROUNDS):
            for depth in range(frames):
                before = each_us * depth / 4
                trace.frame(at + before, at + own_us + writing - 10 - before, f"layer.py({depth}): forward")
            at += own_us + writing
            trace.operation(at + 6, at + 16, "gemm", at - 6)
        trace.step(0, at, f"ProfilerStep#{number}")
        trace.shift = begin + at
    return replay_of(Analysis(trace.build()))


@pytest.mark.parametrize("each_us", [0.8, 2.0, 6.0])
def test_python_s_frames_take_nothing_of_a_step_as_users_run_it(each_us: float) -> None:
    plain, framed = program(0, each_us), program(30, each_us)
    assert framed.recorded_ns > plain.recorded_ns + ROUNDS * 30 * each_us * 900
    assert framed.usual_ns == pytest.approx(plain.usual_ns, rel=0.1)


def test_frames_never_take_all_of_the_time_in_which_they_run() -> None:
    framed = program(30, 20.0, own_us=20.0)
    assert framed.usual_ns > 0.9 * (1 - MAX_OF_GAP) * (1 - MAX_FRAME_SHARE) * framed.recorded_ns
    assert framed.usual_ns < 1.5 * (1 - MAX_FRAME_SHARE) * framed.recorded_ns


def test_few_frames_take_as_long_as_they_usually_do() -> None:
    deep = (ENOUGH_FRAMES - 1) // (4 * ROUNDS)
    plain, framed = program(0, 0.0), program(deep + 1, 0.0)
    taken = plain.usual_ns - framed.usual_ns
    assert taken == pytest.approx(ROUNDS * (deep + 1) * USUAL_FRAME_NS, rel=0.2)


@pytest.mark.parametrize(("slower", "is_slow"), [(1.4, True), (1.15, False)])
def test_a_step_is_as_long_as_while_the_cpu_was_quick(slower: float, is_slow: bool) -> None:
    trace = TinyTrace()
    for number in range(8):
        factor = slower if number >= 3 else 1.0
        trace.step(0, 1000 * factor, f"ProfilerStep#{number}")
        trace.kernels(10, 24, 5, 40 * factor)
        trace.shift += 1000 * factor
    recorded = replay_of(Analysis(trace.build())).recorded_ns
    assert (recorded == pytest.approx(1_000_000, rel=0.05)) is is_slow


@pytest.mark.parametrize(
    ("name", "of_recorder"), [("Activity Buffer Request", True), ("Lazy Function Loading", False)]
)
def test_what_the_recorder_wrote_down_of_its_own_work_is_none_of_the_programs(
    name: str, of_recorder: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        lane = trace._lane(LaneKind.OVERHEAD, 0)
        trace.add(100, 500, name, lane, EventKind.OVERHEAD)
        for number in range(20):
            start = 600 + 10 * number
            trace.operation(start + 8, start + 12, "gemm", start)

    replay = replay_of(Analysis(steps(6, 1_000, body).build()))
    before, inside = buffer_requests(replay.analysis, replay.spans, replay.host)
    assert before.sum() == (6 * 400_000 if of_recorder else 0)
    assert inside.sum() == 0
    assert (replay.usual_ns < 0.65 * replay.recorded_ns) is of_recorder


@pytest.mark.parametrize("recorder", one_of(2, ["pt.trace.json.gz", "sqlite"]))
def test_the_request_for_a_buffer_is_no_python_of_the_program(recorder: str, shared_data: Path) -> None:
    python = [
        each.share
        for each in diagnosed(shared_data / "real" / f"lm.{recorder}").findings
        if each.category is Category.HOST_BOUND
    ]
    assert sum(python) < 0.05
