"""Promises of a fix are held against the trials that were kept of it."""

from __future__ import annotations

import pytest

from rules.trials.record import FixRecord, KeptTrial, here, records_by_fix
from rules.trials.trial import Promised
from rules.verdict.trials import kept_here

# The cases lie on either side of these.
MIN_EXPECTED = 1.02
MIN_TRIALS = 5

PROMISED = (1.1, 1.2, 1.4)


def trial(
    gain: float, fix: str = "fuse-optimizer-1", kind: str = "switch", expected: float = 1.2
) -> KeptTrial:
    promised = (PROMISED[0], expected, PROMISED[2])
    return KeptTrial("fused-optimizer", kind, "Fused", fix, promised, (gain - 0.02, gain, gain + 0.02))


def test_count_the_trials_of_a_fix_and_those_whose_promise_held() -> None:
    kept = [trial(1.2), trial(1.3, "fuse-optimizer-2"), trial(1.0), trial(2.0, "use-tensor-cores-1")]
    fused, cores = records_by_fix(kept)
    assert (fused.fix, fused.trials, fused.held) == ("fuse-optimizer", 3, 2)
    assert (cores.fix, cores.trials, cores.held) == ("use-tensor-cores", 1, 0)


@pytest.mark.parametrize(
    "left_out",
    [
        trial(1.2, kind="ceiling"),
        trial(1.2, fix=""),
        KeptTrial("fused-optimizer", "switch", "Fused", "fuse-optimizer-1", PROMISED, None),
        KeptTrial("fused-optimizer", "switch", "Fused", "fuse-optimizer-1", None, (1.0, 1.1, 1.2)),
    ],
)
def test_leave_out_ceilings_and_what_was_not_promised_or_not_measured(left_out: KeptTrial) -> None:
    assert records_by_fix([left_out]) == ()


def test_correct_a_promise_only_after_enough_trials() -> None:
    few, enough = (FixRecord("f", count, count, (0.9,) * count) for count in (MIN_TRIALS - 1, MIN_TRIALS))
    assert few.correction is None
    assert enough.correction is not None
    assert enough.correction.middle == pytest.approx(0.9)


def test_most_measured_gains_lie_within_the_correction() -> None:
    ratios = tuple(0.8 + 0.02 * number for number in range(21))
    correction = FixRecord("f", 21, 21, ratios).correction
    assert correction is not None
    inside = sum(correction.low <= ratio <= correction.high for ratio in ratios)
    assert 15 <= inside <= 19
    assert correction.low < correction.middle < correction.high


@pytest.mark.parametrize(("expected", "counts"), [(0.99 * MIN_EXPECTED, 0), (1.03 * MIN_EXPECTED, 1)])
def test_a_promise_of_next_to_nothing_corrects_nothing(expected: float, counts: int) -> None:
    (record,) = records_by_fix([trial(1.2, expected=expected)])
    assert (record.trials, len(record.ratios)) == (1, counts)


def record(*ratios: float) -> FixRecord:
    return FixRecord("fuse-optimizer", len(ratios), len(ratios), ratios)


def test_a_promise_moves_and_widens_with_what_trials_on_the_machine_measured() -> None:
    promised = Promised(1.1, 1.2, 1.4)
    assert here(promised, record(*[0.9] * (MIN_TRIALS - 1)), 10.0) is None
    steady = here(promised, record(*[0.9] * MIN_TRIALS), 10.0)
    assert steady is not None
    assert (steady.low, steady.expected, steady.high) == pytest.approx((0.99, 1.08, 1.26))
    wide = here(promised, record(0.5, 0.8, 1.0, 1.5, 2.0), 10.0)
    assert wide is not None
    assert wide.expected == pytest.approx(1.2)
    assert wide.low < 1.1
    assert wide.high > 1.4


def test_no_promise_is_moved_above_what_is_possible() -> None:
    moved = here(Promised(1.1, 1.2, 1.4), record(*[1.5] * MIN_TRIALS), 1.5)
    assert moved is not None
    assert (moved.expected, moved.high) == (1.5, 1.5)
    assert moved.low < 1.8


@pytest.mark.parametrize(
    ("trials", "held", "said"),
    [
        (1, 1, "The promise held in the one trial on this machine"),
        (1, 0, "The promise did not hold in the one trial on this machine"),
        (4, 3, "The promise held in 3 of 4 trials on this machine"),
    ],
)
def test_say_in_how_many_trials_a_promise_held_while_they_are_few(trials: int, held: int, said: str) -> None:
    few = FixRecord("f", trials, held, (1.0,) * trials)
    assert kept_here(few, here(Promised(1.1, 1.2, 1.4), few, 10.0)) == said


def test_say_what_to_expect_after_enough_trials() -> None:
    enough = record(*[0.9] * MIN_TRIALS)
    assert kept_here(enough, here(Promised(1.1, 1.5, 2.0), enough, 10.0)) == (
        f"On this machine, {MIN_TRIALS} trials measured 0.90 times the promise: expect 1.4x (0.99 to 1.8)"
    )
    spread = record(*[0.9] * MIN_TRIALS, *[1.1] * MIN_TRIALS)
    said = kept_here(spread, here(Promised(1.1, 1.5, 2.0), spread, 10.0))
    assert f"{2 * MIN_TRIALS} trials measured 0.90 to 1.10 times the promise: expect 1.5x" in said
