"""From which numbers on what happens beneath a loss is told: frames, samples, layers, chains of kernels."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model import EventKind, LaneKind
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.memory_bound import memory_bound
from rules.fixes.base import fixes
from rules.fixes.forms import shared_heads
from rules.fixes.loops.pieces import _is_piece
from rules.kernels.launch_groups import groups_worth_reading
from rules.losses import warm_up as warming
from rules.losses.beneath import Beneath, beneath
from rules.replay.replay import replay_of
from tests.rules.builder import MAIN, TinyTrace, steps
from tests.rules.kernel_profiles import kernel


def beneath_ms(trace: TinyTrace) -> Beneath:
    """What a thread did in the first millisecond."""
    built = trace.build()
    threads = SimpleNamespace(
        drivers=lambda _: (None, 0), events=lambda _: np.arange(len(built.events.start))
    )
    intervals = np.array([0]), np.array([1_000_000])
    waiting = SimpleNamespace(
        analysis=SimpleNamespace(trace=built, threads=threads), device=0, intervals=intervals
    )
    return beneath(cast(Any, waiting))


@pytest.mark.parametrize(("us", "told"), [(600, True), (599, False)])
def test_a_frame_says_what_a_wait_is_that_holds_three_fifths_of_it(us: float, told: bool) -> None:
    trace = TinyTrace()
    trace.frame(0, us, "train.py(3): load")
    assert bool(beneath_ms(trace).frame) is told


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ({"decode": 20}, {"decode"}),
        ({"decode": 19}, set()),
        ({"decode": 97, "read": 3}, {"decode", "read"}),
        ({"decode": 98, "read": 2}, {"decode"}),
    ],
)
def test_twenty_samples_say_what_a_cpu_did_and_three_percent_are_named(
    counts: dict[str, int], named: set[str]
) -> None:
    trace = TinyTrace()
    lane = trace._lane(LaneKind.CPU_THREAD, MAIN)
    at = 0
    for name, count in counts.items():
        for _ in range(count):
            trace.add(at, at, name, lane, EventKind.SAMPLE)
            at += 1
    assert {name for name, _ in beneath_ms(trace).samples} == named


def step(start: int, duration: int, steady: bool) -> Any:
    return SimpleNamespace(
        rank=None, start=start, end=start + duration, duration=duration, steady=steady, name="step"
    )


@pytest.mark.parametrize(
    ("first", "computed", "starts_up", "works"),
    [(501, 0.0, True, False), (500, 0.0, False, False), (501, 0.81, False, True), (501, 0.79, True, False)],
)
def test_a_program_starts_up_in_a_step_of_five_times_the_length_that_does_not_compute(
    first: int, computed: float, starts_up: bool, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "_start_up_work", lambda *_: ((), (), False))
    time = SimpleNamespace(compute=None, within=lambda _, start, end: computed * (end - start))
    analysis = SimpleNamespace(
        steps=[step(0, first, False), *(step(1_000 + 100 * each, 100, True) for each in range(4))],
        trace=SimpleNamespace(duration=2_000, devices=[SimpleNamespace(rank=None)]),
        active_devices=[0],
        time=lambda _: time,
    )
    found = warming.warm_up(cast(Any, analysis))
    assert found is not None
    assert (found.starts_up, found.works) == (starts_up, works)


ADDS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, array<char*, 3> >"
)
MULTIPLIES = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, array<char*, 2> >"
)


def chain_of(*kernels: tuple[str, float]) -> Any:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for number, (name, us) in enumerate(kernels):
            trace.operation(at, at + us, name, 6.0 * number)
            at += us

    return memory_bound(Analysis(steps(4, 1_000.0, body).build()), 0)


@pytest.mark.parametrize(("us", "found"), [(3.0, True), (2.9, False)])
def test_kernels_are_bound_by_memory_from_3_us_on(us: float, found: bool) -> None:
    assert bool(chain_of((MULTIPLIES, us), (MULTIPLIES, us)).saved_ns) is found


def test_a_kernel_that_adds_two_tensors_is_saved_by_two_thirds() -> None:
    """Of 100 us and 60 us the longer one stays: of what is fused into it, the second tensor is still read."""
    alone = chain_of((MULTIPLIES, 100.0), (MULTIPLIES, 60.0)).saved_ns
    adding = chain_of((MULTIPLIES, 100.0), (ADDS, 60.0)).saved_ns
    assert (alone, adding) == (4 * 60_000, 4 * 40_000)


@pytest.mark.parametrize(("between", "found"), [(1, True), (2, False)])
def test_a_spectrum_is_shifted_at_most_two_operators_from_its_transform(
    between: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TinyTrace()
    names = ["aten::roll", *["aten::mul"] * between, "aten::fft_fft2"]
    rows = np.array([trace.op(10 * number, 10 * number + 5, name) for number, name in enumerate(names)])
    monkeypatch.setattr(shared_heads, "called_in_order", lambda _: [rows])
    assert bool(len(shared_heads.shifted_spectra(Analysis(trace.build())))) is found


@pytest.mark.parametrize(("between", "found"), [(15, True), (16, False)])
def test_heads_are_copied_at_most_sixteen_operators_before_the_attention(
    between: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TinyTrace()
    keys, copied = [1, 2, 64, 128], [1, 8, 64, 128]
    names = ["aten::repeat_interleave", *["aten::mul"] * between, "aten::scaled_dot_product_attention"]
    rows = np.array([trace.op(10 * number, 10 * number + 5, name) for number, name in enumerate(names)])
    trace.shapes(int(rows[0]), [keys], ["half"])
    trace.shapes(int(rows[-1]), [copied, copied, copied], ["half"] * 3)
    monkeypatch.setattr(shared_heads, "called_in_order", lambda _: [rows])
    assert bool(len(shared_heads.shared_heads(Analysis(trace.build())).attention)) is found


@pytest.mark.parametrize(("queries", "few"), [(16, True), (17, False)])
def test_sixteen_queries_of_a_head_do_little_but_read(queries: int, few: bool) -> None:
    assert shared_heads._has_few_queries(cast(Any, [[1, 8, queries, 128]])) is few


@pytest.mark.parametrize(("width", "piece"), [(32, True), (33, False)])
def test_a_piece_is_at_most_half_of_the_whole(width: int, piece: bool) -> None:
    sliced, convolved = [[1, 3, 64, 64]], [[1, 3, 64, width], [8, 3, 3, 3]]
    assert _is_piece(json.dumps(sliced), json.dumps(convolved)) is piece


@pytest.mark.parametrize(
    ("short", "ns", "read"),
    [
        (11, 0.1, 12),  # of twelve groups all
        (12, 1.9, 1),
        (12, 2.1, 13),  # two thousandths of the time
        (70, 5.0, 60),
    ],
)
def test_findings_speak_of_twelve_groups_or_of_sixty_that_take_two_thousandths(
    short: int, ns: float, read: int
) -> None:
    lengths = [1000.0 - short * ns, *[ns] * short]
    kernels = tuple(
        kernel({"gpu__time_duration.sum": length}, name=f"kernel_{number}", ident=str(number))
        for number, length in enumerate(lengths)
    )
    assert len(groups_worth_reading(cast(Any, SimpleNamespace(kernels=kernels)))) == read


@pytest.mark.parametrize(("layers", "found"), [(3, True), (2, False)])
def test_three_layers_are_an_evaluation_that_may_come_ten_times_or_thrice_less_often(
    layers: int, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(3):
            trace.op(100 * number, 100 * number + 50, "aten::linear")
            trace.operation(100 * number + 20, 100 * number + 60, "gemm", 100 * number + 5)
        trace.op(400, 450, "autograd::engine::evaluate_function: AddmmBackward0")
        trace.operation(420, 460, "gemm", 405)
        trace.region(500, 600, "Optimizer.step#SGD.step")
        trace.operation(520, 560, "multiply", 505)
        trace.region(1_000, 1_500, "validate")
        for number in range(layers):
            at = 1_000.0 + 100 * number
            trace.op(at + 5, at + 50, "aten::linear")
            trace.operation(at + 20, at + 60, "judging", at + 10)

    analysis = Analysis(steps(6, 2_000.0, body).build())
    replay = replay_of(analysis)
    (wanted,) = [each for each in fixes() if each.id == "evaluate-less-often"]
    made = list(wanted.proposals(analysis, replay))
    assert bool(made) is found
    for each in made:
        mine = analysis.trace.events.name[replay.device.event] == analysis.trace.strings.index("judging")
        left = [
            replay.overlay([change]).duration[mine].sum() / replay.usual.duration[mine].sum()
            for change in (each.expected, each.low)
            if change is not None
        ]
        assert left == pytest.approx([1 / 10, 1 / 3])
