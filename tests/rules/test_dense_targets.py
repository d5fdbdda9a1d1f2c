"""Distributions over all classes that are built from labels for a loss."""

from __future__ import annotations

import pytest

from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.fixes.base import Proposal, fixes
from rules.fixes.catalog.labels_and_tables import dense_targets
from rules.replay.replay import Replay, replay_of
from tests.rules.builder import TinyTrace, steps

SCORES, ROWS = [512, 1000], [512, 1]
FILL, PRODUCT = "void fill_kernel", "sm90_gemm_128x128"


@dataclass(frozen=True)
class Loss:
    """A target is filled, labels are written into it and padding cleared, and a loss compares it with the scores."""

    loss: str = "aten::kl_div"
    writes: str = "aten::scatter_"
    target: tuple[int, ...] = tuple(SCORES)
    index: tuple[int, ...] = tuple(ROWS)
    before: int = 0  # other operators before the labels are written
    between: int = 0  # ... and before the loss
    other_us: float = 200.0

    def body(self, trace: TinyTrace, _: int) -> None:
        at, on_gpu = 5.0, 20.0

        def call(name: str, sizes: list[list[int]], us: float = 0.0, kernel: str = FILL) -> None:
            nonlocal at, on_gpu
            trace.shapes(trace.op(at, at + 7, name), sizes, ["float"] * len(sizes))
            if us:
                trace.operation(on_gpu, on_gpu + us, kernel, at + 1)
                on_gpu += us
            at += 8

        target = list(self.target)
        for _place in range(16):
            call("aten::linear", [[8, 8]], self.other_us / 16, PRODUCT)
        call("aten::fill_", [target], 100.0)
        for _place in range(self.before):
            call("aten::view", [[8, 8]])
        call(self.writes, [target, [], list(self.index), []], 100.0)
        call("aten::nonzero", [[512]], 4.0)
        for _place in range(self.between):
            call("aten::view", [[8, 8]])
        call(self.loss, [SCORES, target, [], []], 200.0)
        trace.call(at, max(at, on_gpu) + 10, "cudaDeviceSynchronize")

    @property
    def analysis(self) -> Analysis:
        return Analysis(steps(5, 800 + self.other_us + 8 * (self.before + self.between), self.body).build())

    def proposals(self) -> tuple[Replay, list[Proposal]]:
        replay = replay_of(self.analysis)
        (wanted,) = [each for each in fixes() if each.id == "smooth-labels-in-loss"]
        return replay, list(wanted.proposals(replay.analysis, replay))


@pytest.mark.parametrize(
    ("loss", "filled", "found"),
    [
        (Loss(), True, True),
        (Loss(loss="aten::cross_entropy_loss"), True, True),
        (Loss(loss="aten::mse_loss"), False, False),
        (Loss(writes="aten::index_put_"), False, False),
        (Loss(index=(512, 4)), False, False),
        (Loss(target=(512, 1001)), False, False),
        (Loss(before=7), True, True),
        (Loss(before=8), False, True),
        (Loss(between=30), True, True),
        (Loss(between=31), False, False),
    ],
    ids=[
        "divergence",
        "cross entropy",
        "another loss",
        "written in another way",
        "several places of a row",
        "another tensor",
        "made eight operators before",
        "made earlier",
        "a loss 32 operators later",
        "a later one",
    ],
)
def test_a_distribution_of_labels_before_a_loss(loss: Loss, filled: bool, found: bool) -> None:
    analysis = loss.analysis
    targets = dense_targets(analysis)
    assert len(targets.distribution) == 5 * (2 * found + filled)
    assert len(targets.padding) == 5 * found
    assert bool(loss.proposals()[1]) is found


@pytest.mark.parametrize(("other_us", "found"), [(7_500.0, True), (7_700.0, False)])
def test_it_is_told_from_a_twentieth_of_the_gpus_time_on(other_us: float, found: bool) -> None:
    assert bool(Loss(other_us=other_us).proposals()[1]) is found


def test_a_fifth_of_its_time_remains_and_nothing_looks_for_padding() -> None:
    replay, (made,) = Loss().proposals()
    filling = named(replay.analysis.trace, replay.device.event, FILL.__eq__)
    assert made.low is not None
    for change, left, looks in ((made.expected, 0.2, False), (made.low, 0.5, True)):
        overlay = replay.overlay([change])
        took = overlay.duration[filling] * overlay.present[filling]
        assert took.sum() == pytest.approx(5 * (400 * left + 4 * looks) * 1000, rel=0.01)


def test_it_is_told_by_its_name() -> None:
    found = diagnose(Loss().analysis.trace).findings
    assert any(each.title.startswith("A distribution is built from labels for the loss") for each in found)
