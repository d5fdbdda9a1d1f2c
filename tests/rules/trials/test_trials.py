"""Gains have bounds that hold the truth, what the noise hides is no difference, and a restless machine says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.fixes.base import fixes, switches_of
from rules.trials.blocks import Block, Gain, gain_of, gain_of_launches, have_different_sizes, whole_rounds
from rules.trials.likeness import Likeness, compare_losses
from rules.trials.record import KeptTrial
from rules.trials.trial import (
    Candidate,
    Kind,
    Promised,
    Trial,
    Trials,
    Verdict,
    beside,
    trial_of,
    trial_of_launches,
)
from rules.verdict import trials as wording
from viewer.capture.torch_runner.stallscope_recorder.trials.catalogue import CEILING, START, SWITCH, catalogue

# The cases lie on either side of these.
MIN_BLOCKS = 4
SAME_SIZE = 0.001
DIVERGED = 0.5
MAX_UNREPEATABLE = 0.01
MAX_TELLING = 2.0

FUSED = Candidate(
    "fused-optimizer", Kind.SWITCH, "Use a fused optimizer", "fuse-optimizer-1", Promised(1.0, 1.16, 1.3)
)
CONTROL = Candidate("control", Kind.CONTROL, "Nothing changed (control)")
LATE = Candidate("same-batch", Kind.CEILING, "Data loading takes no time")


def blocks(
    without: list[float], with_it: list[float], elements: tuple[float, float] = (0.0, 0.0), name: str = "x"
) -> list[Block]:
    """Blocks of eight steps from the milliseconds of a step."""
    return [
        Block(name, changed, 8, 8e6 * step, 8 * elements[changed], 1000 + 500 * changed)
        for changed, times in ((False, without), (True, with_it))
        for step in times
    ]


def noisy(step: float, spread: float, seed: int, count: int = 6) -> list[float]:
    return (step * np.random.default_rng(seed).normal(1.0, spread, count)).tolist()


def test_a_clear_gain_is_proved_with_narrow_bounds() -> None:
    trial = trial_of(FUSED, blocks(noisy(60.0, 0.003, 1), noisy(52.0, 0.003, 2)))
    assert trial.verdict is Verdict.PROVED
    assert trial.gain is not None
    assert trial.gain.low < 60 / 52 < trial.gain.high
    assert trial.gain.high / trial.gain.low < 1.03
    assert (trial.baseline_ns, trial.blocks) == (pytest.approx(6e7, rel=0.01), 12)
    assert trial.peak_bytes == (1000, 1500)


def test_a_gain_whose_bounds_hold_one_is_no_difference() -> None:
    trial = trial_of(FUSED, blocks(noisy(60.0, 0.05, 1), noisy(60.0, 0.05, 2)))
    assert trial.verdict is Verdict.NO_DIFFERENCE
    assert "no measurable difference (at most " in wording.line(trial)


@pytest.mark.parametrize(
    ("high", "said", "beside"),
    [
        (MAX_TELLING, "no measurable difference (at most 2.00x)", "no measurable difference (at most 2.00x)"),
        (MAX_TELLING + 0.01, "too noisy to tell (0.50 to 2.01)", "too noisy to tell"),
    ],
)
def test_bounds_that_are_far_apart_tell_nothing(high: float, said: str, beside: str) -> None:
    trial = replace(trial_of(FUSED, []), gain=Gain(1.0, 0.5, high))
    assert (wording.result(trial), wording.meaning(trial)) == (said, beside)
    control = replace(trial_of(CONTROL, []), gain=Gain(1.0, 0.6, high))
    assert wording.result(control).startswith("too noisy here") is (high > MAX_TELLING)


@pytest.mark.parametrize(
    ("low", "said", "of_control"),
    [
        (0.5, "no measurable difference (at most 1.20x)", "varies by up to 50 % on its own"),
        (0.49, "no measurable gain (at most 1.20x)", "too noisy here: "),
    ],
)
def test_what_may_be_far_slower_is_no_gain_and_not_called_alike(
    low: float, said: str, of_control: str
) -> None:
    trial = replace(trial_of(FUSED, []), gain=Gain(0.9, low, 1.2))
    assert wording.meaning(trial) == said
    control = replace(trial_of(CONTROL, []), gain=Gain(0.9, low, 1.2))
    assert wording.result(control).startswith(of_control)


def test_bounds_hold_the_truth_about_as_often_as_they_say() -> None:
    held = 0
    for seed in range(200):
        gain = gain_of(blocks(noisy(1.2, 0.02, 2 * seed), noisy(1.0, 0.02, 2 * seed + 1)))
        assert gain is not None
        held += gain.low <= 1.2 <= gain.high
    assert held >= 180, held


@pytest.mark.parametrize("rounds", [3, 6])
def test_bounds_hold_the_truth_where_the_gain_differs_from_round_to_round(rounds: int) -> None:
    held = 0
    for seed in range(100):
        random = np.random.default_rng([rounds, seed])
        found = []
        for _ in range(rounds):
            level, gain = np.exp(random.normal(0, 0.2)), 1.3 * np.exp(random.normal(0, 0.1))
            for changed in (False, True, True, False):
                took = 8e7 * level / (gain if changed else 1.0) * np.exp(random.normal(0, 0.02))
                found.append(Block("fused-optimizer", changed, 8, took))
        told = gain_of(found)
        assert told is not None
        held += told.low <= 1.3 <= told.high
    assert 88 <= held <= 98, held


def test_too_few_blocks_give_no_gain() -> None:
    assert gain_of(blocks([60.0], [52.0])) is None
    assert trial_of(FUSED, blocks([60.0], [52.0])).verdict is Verdict.NOT_REACHED
    assert trial_of(FUSED, []).verdict is Verdict.NOT_REACHED
    assert gain_of(blocks([60.0, 61.0, 60.0], [52.0, 53.0, 52.0])) is None, "chance, once in ten times"
    assert gain_of(blocks([60.0, 61.0] * 2, [52.0, 53.0] * 2)) is not None


def test_rounds_that_a_launch_cut_short_are_left_out() -> None:
    whole = [*blocks([1.0, 2.0], [3.0, 4.0], name="a"), *blocks([5.0, 6.0], [7.0, 8.0], name="b")]
    cut = blocks([9.0, 9.0], [9.0], name="b")
    assert whole_rounds([*whole, *cut]) == tuple(whole)
    assert whole_rounds(cut) == ()


def test_a_change_that_failed_has_its_reason_and_no_gain() -> None:
    trial = trial_of(FUSED, blocks(noisy(60.0, 0.01, 1), noisy(52.0, 0.01, 2)), "RuntimeError: no kernel")
    assert (trial.verdict, trial.gain) == (Verdict.REFUSED, None)
    assert wording.result(trial) == "it failed: RuntimeError: no kernel"


def test_batches_of_different_size_are_compared_by_element() -> None:
    made = blocks(noisy(60.0, 0.01, 1), noisy(30.0, 0.01, 2), (1000.0, 500.0))
    gain = gain_of(made)
    assert gain is not None
    assert gain.value == pytest.approx(1.0, abs=0.02)
    unknown = gain_of(blocks(noisy(60.0, 0.01, 1), noisy(30.0, 0.01, 2), (1000.0, 0.0)))
    assert unknown is not None
    assert unknown.value == pytest.approx(2.0, abs=0.05), "one size that nobody knows: by step"


@pytest.mark.parametrize(("apart", "different"), [(SAME_SIZE * 0.9, False), (SAME_SIZE * 1.1, True)])
def test_sizes_that_differ_hardly_are_the_same(apart: float, different: bool) -> None:
    assert have_different_sizes(blocks([1.0], [1.0], (1e6, 1e6 * (1 + apart)))) is different


def test_launches_that_differ_among_themselves_widen_the_bounds() -> None:
    alike = gain_of_launches(
        [blocks([60.0, 60.5], []), blocks([60.2, 60.1], [])],
        [blocks([], [50.0, 50.5]), blocks([], [50.2, 50.1])],
    )
    unlike = gain_of_launches(
        [blocks([60.0, 60.5], []), blocks([75.2, 75.1], [])],
        [blocks([], [50.0, 50.5]), blocks([], [62.2, 62.1])],
    )
    assert alike is not None
    assert unlike is not None
    assert alike.is_seen
    assert not unlike.is_seen
    trial = trial_of_launches(FUSED, [blocks([60.0, 60.5], [])], [], "it ended with exit code 1")
    assert trial.verdict is Verdict.REFUSED


def test_two_launches_of_each_kind_tell_together_how_much_launches_differ() -> None:
    held, seen = 0, 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        without, with_it = (
            [
                [
                    Block("num-workers", gain > 1, 8, 8e7 / gain * level * random.normal(1, 0.02))
                    for _ in range(4)
                ]
                for level in np.exp(random.normal(0, 0.05, 2))
            ]
            for gain in (1.0, 1.5)
        )
        told = gain_of_launches(without, with_it)
        assert told is not None
        held += told.low <= 1.5 <= told.high
        seen += told.is_seen
    assert held >= 92, held
    assert seen >= 85, seen


def control(low: float, high: float) -> Trial:
    return trial_of(CONTROL, blocks([low, low, low, low], [high, high, high, high]))


def test_a_program_that_differs_from_itself_gives_no_gains() -> None:
    won = trial_of(FUSED, blocks(noisy(60.0, 0.003, 1), noisy(52.0, 0.003, 2)))
    still = trial_of(CONTROL, blocks(noisy(60.0, 0.01, 3), noisy(60.0, 0.01, 4)))
    assert not Trials((won,), still).restless
    assert wording.summary(Trials((won,), still)).startswith("Measured: 1.156x faster (")
    restless = Trials((won,), control(60.0, 40.0))
    assert restless.restless
    assert wording.summary(restless).startswith("This machine is too noisy to tell")


def measured(candidate: Candidate, low: float, value: float, high: float, blocks: int = 12) -> Trial:
    return Trial(candidate, Gain(value, low, high), blocks=blocks)


@pytest.mark.parametrize(("of_control", "proved"), [(26.9, True), (27.1, False)])
def test_no_gain_is_proved_that_the_control_reaches_by_chance(of_control: float, proved: bool) -> None:
    still = measured(CONTROL, 0.5, 1.0, of_control)
    judged = beside(measured(FUSED, 26.0, 27.0, 28.0), still)
    assert (judged.verdict is Verdict.PROVED) is proved
    assert Trials((judged,), still).restless is not proved
    assert judged.gain is not None
    assert judged.gain.low == pytest.approx(27.0 / of_control)
    assert judged.gain.high == pytest.approx(54.0)
    assert beside(still, still) == still, "the control is the measure, and is measured by nothing"
    assert beside(measured(FUSED, 26.0, 27.0, 28.0), None).verdict is Verdict.PROVED


def test_bounds_that_are_wider_than_those_of_the_control_stay_as_they_are() -> None:
    gain = Gain(1.2, 0.9, 1.5)
    assert beside(Trial(FUSED, gain, blocks=12), measured(CONTROL, 0.95, 1.0, 1.05)).gain == gain


def test_more_blocks_than_the_control_has_tell_more() -> None:
    still = measured(CONTROL, 0.9, 1.0, 1.1)
    few, many, most = (beside(measured(FUSED, 1.08, 1.08, 1.08, count), still) for count in (8, 12, 48))
    assert few.gain == many.gain, "nor do fewer tell less than the control"
    assert (many.verdict, most.verdict) == (Verdict.NO_DIFFERENCE, Verdict.PROVED)


@pytest.mark.parametrize(("of_control", "restless"), [(MAX_TELLING, False), (MAX_TELLING + 0.01, True)])
def test_nothing_is_told_where_nothing_stands_out_of_a_wide_control(
    of_control: float, restless: bool
) -> None:
    still = measured(CONTROL, 0.6, 1.0, of_control)
    hidden, clear = (beside(measured(FUSED, gain, gain, gain), still) for gain in (1.5, 5.0))
    assert Trials((hidden,), still).restless is restless
    assert not Trials((hidden, clear), still).restless
    assert Trials((), replace(still, gain=Gain(1.0, 1 / of_control, 1.1))).restless is restless


def test_a_ceiling_is_never_called_a_gain_to_keep() -> None:
    late = trial_of(LATE, blocks(noisy(60.0, 0.003, 1), noisy(52.0, 0.003, 2)))
    assert late.verdict is Verdict.PROVED
    assert not late.is_a_gain
    assert Trials((late,), None).best is None
    assert "worth a code change: up to 1.1" in wording.result(late)
    nothing = trial_of(LATE, blocks(noisy(60.0, 0.01, 1), noisy(60.0, 0.01, 2)))
    assert "fixing it can't help here" in wording.result(nothing)


def test_the_whole_is_told_with_its_members() -> None:
    whole = Candidate("together", Kind.TOGETHER, "All that won, together")
    made = [
        Block("together", changed, 8, ns, changes=("fused-optimizer", "tf32") if changed else ())
        for changed, ns in ((False, 9e7), (True, 3e7))
        for ns in noisy(ns, 0.005, changed)
    ]
    trials = Trials(
        (
            trial_of(FUSED, blocks(noisy(60.0, 0.003, 1), noisy(52.0, 0.003, 2))),
            trial_of(Candidate("tf32", Kind.SWITCH, "Use TF32"), []),
            trial_of(whole, made),
        )
    )
    assert wording.summary(trials).startswith("Measured with 2 changes together: 2.996x faster (")
    assert wording.summary(trials).endswith("). Use a fused optimizer and use TF32.")


@pytest.mark.parametrize(("beyond", "told"), [(-0.001, True), (0.001, False)])
def test_a_ceiling_ends_a_discussion_only_where_it_is_low(beyond: float, told: bool) -> None:
    trial = replace(trial_of(LATE, []), gain=Gain(1.0, 0.99, 1.05 + beyond))
    assert ("fixing it can't help here" in wording.result(trial)) is told


def test_gains_and_their_bounds_have_the_same_decimals() -> None:
    assert wording.times(Gain(1.002, 0.955, 1.056)) == "1.00x (0.95 to 1.06)"
    assert wording.times(Gain(9.0, 8.0, 9.99)) == "9.00x (8.00 to 9.99)"
    assert wording.times(Gain(9.0, 8.0, 10.01)) == "9.0x (8.0 to 10.0)"


@pytest.mark.parametrize(
    ("wider", "told"), [(-0.001, "1.150x (1.100 to 1.199)"), (0.001, "1.15x (1.10 to 1.20)")]
)
def test_close_bounds_are_told_with_more_digits(wider: float, told: str) -> None:
    assert wording.times(Gain(1.15, 1.1, 1.2 + wider)) == told


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("switch", "promised 1.00x to 1.3x, measured 1.149x (1.142 to 1.156)"),
        ("ceiling", "promised 1.00x to 1.3x, measured 1.149x (1.142 to 1.156) with it removed"),
    ],
)
def test_what_was_measured_stands_beside_what_was_promised(kind: str, told: str) -> None:
    kept = KeptTrial("fused", kind, "Fuse", "fuse-1", (1.0, 1.16, 1.3), (1.142, 1.149, 1.156))
    assert wording.beside_promise(kept) == told
    assert wording.beside_promise(replace(kept, promised=None)) == told.partition(", ")[2]
    assert wording.beside_promise(replace(kept, measured=None)) == ""


@pytest.mark.parametrize(("settling", "told"), [(0.99, False), (1.01, True)])
def test_compiling_is_told_where_it_takes_long(settling: float, told: bool) -> None:
    measured = trial_of(FUSED, blocks([1.0] * 4, [1.0] * 4))
    trial = replace(measured, settling_ns=settling * 1e9)
    assert not wording.about(replace(trial, gain=None))
    assert any("longer" in each for each in wording.about(trial)) is told


@pytest.mark.parametrize(("change", "told"), [(0.009, False), (0.011, True), (-0.011, True)])
def test_memory_is_told_where_it_changed(change: float, told: bool) -> None:
    gain = Gain(1.2, 1.1, 1.3)
    trial = replace(trial_of(FUSED, []), gain=gain, peak_bytes=(100_000, round(100_000 * (1 + change))))
    assert any("peak memory" in each for each in wording.about(trial)) is told


def test_what_made_no_sense_is_told_by_its_reason() -> None:
    on_cpu = [
        trial_of(replace(FUSED, title=title, against="the program runs on the CPU"), [])
        for title in ("A", "B")
    ]
    assert wording.left_out(Trials(tuple(on_cpu))) == ["Not applicable (the program runs on the CPU): A; B."]


LOSSES = [2.0, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3]


def times(factor: float) -> list[float | None]:
    return [each * factor for each in LOSSES]


@pytest.mark.parametrize(
    ("second", "changed", "rounds", "likeness"),
    [
        (1.0, 1.0, False, Likeness.BIT_EQUAL),
        (1.0, 1.0, True, Likeness.DIFFERS),
        (1 + 1e-6, 1 - 5e-7, False, Likeness.EQUAL),
        (1 + 1e-6, 1 - 5e-6, False, Likeness.DIFFERS),
        (1 + 1e-6, 1 - 5e-7, True, Likeness.DIFFERS),
        (1 + 0.9 * MAX_UNREPEATABLE, 1.0, False, Likeness.BIT_EQUAL),
        (1 + 1.1 * MAX_UNREPEATABLE, 1.0, False, Likeness.NOT_COMPARABLE),
        (1.0, 1 + 0.9 * DIVERGED, False, Likeness.DIFFERS),
        (1.0, 1 + 1.1 * DIVERGED, False, Likeness.DIVERGES),
    ],
)
def test_losses_are_held_against_what_two_runs_differ_by(
    second: float, changed: float, rounds: bool, likeness: Likeness
) -> None:
    found = compare_losses(LOSSES, times(second), times(changed), rounds=rounds)
    assert found.likeness is likeness
    assert wording.likeness(found)


def test_losses_that_are_no_numbers_diverge_and_a_script_whose_own_are_none_cannot_tell() -> None:
    broken = [*LOSSES[:-1], None]
    assert compare_losses(LOSSES, LOSSES, broken).likeness is Likeness.DIVERGES
    assert compare_losses(broken, LOSSES, LOSSES).likeness is Likeness.NOT_COMPARABLE
    assert compare_losses(LOSSES, LOSSES, LOSSES[:1]).likeness is Likeness.NOT_COMPARABLE


@given(
    st.lists(st.floats(0.1, 1e3), min_size=MIN_BLOCKS, max_size=12),
    st.lists(st.floats(0.1, 1e3), min_size=MIN_BLOCKS, max_size=12),
)
def test_a_gain_lies_within_its_bounds(without: list[float], with_it: list[float]) -> None:
    gain = gain_of(blocks(without, with_it))
    assert gain is not None
    assert 0 < gain.low <= gain.value <= gain.high < float("inf")


def test_every_switch_that_a_fix_names_is_known_to_the_recorder() -> None:
    named = {each: fix.id for fix in fixes() for each in switches_of(fix.id)}
    assert named.keys() <= catalogue().keys()
    assert switches_of("fuse-optimizer") == ("fused-optimizer", "foreach-optimizer", "no-optimizer")
    assert switches_of("align-shapes") == switches_of("no-such-fix") == ()


def test_the_catalogue_holds_what_is_promised_of_it() -> None:
    levels = [each.level for each in catalogue().values()]
    assert levels.count(SWITCH) >= 14
    assert levels.count(START) >= 8
    assert levels.count(CEILING) >= 6
    assert all(each.title and each.name == name for name, each in catalogue().items())


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ((), "Time ran out. Raise the time limit to about 150 s to try the rest."),
        (
            (FUSED,),
            "Not tried, because time ran out: Use a fused optimizer. "
            "Raise the time limit to about 150 s to try it.",
        ),
        (
            (FUSED, LATE),
            "Not tried, because time ran out: Use a fused optimizer; Data loading takes no time. "
            "Raise the time limit to about 150 s to try them.",
        ),
    ],
)
def test_what_time_was_too_short_for_is_named(left: tuple[Candidate, ...], told: str) -> None:
    refused = trial_of(replace(FUSED, against="there is only one rank"), [])
    trials = Trials((refused, *(trial_of(each, []) for each in left)), ended="time", needed_s=150)
    assert wording.caution(trials) == [told]
    assert wording.caution(replace(trials, ended="complete")) == []


def test_a_summary_does_not_speak_for_changes_that_were_not_measured() -> None:
    alike = replace(trial_of(FUSED, []), gain=Gain(1.0, 0.9, 1.1))
    not_reached = trial_of(replace(FUSED, switch="threads"), [])
    senseless = trial_of(replace(FUSED, switch="tf32", against="the program runs on the CPU"), [])
    none = "None of these changes makes the program measurably faster here."
    assert wording.summary(Trials((alike, senseless))) == none
    assert (
        wording.summary(Trials((alike, not_reached, senseless))) == "No gain so far: 1 of 2 changes measured."
    )
    assert wording.summary(Trials((not_reached, senseless))) == "Nothing was measured."
