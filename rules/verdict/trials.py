"""What is said of changes that were tried in a running program."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.model.units import duration, percent, size
from rules.trials.blocks import Gain
from rules.trials.kept import KeptTrial
from rules.trials.likeness import Likeness, LossComparison
from rules.trials.trial import Kind, Promised, Trial, Trials, Verdict
from rules.verdict.promises import factor
from rules.wording.phrases import listed

MIN_SETTLING_NS = 1e9  # less than a second of compiling is nothing to speak of
MIN_MEMORY_CHANGE = 0.01
MIN_LARGE = 10.0  # times as fast
FINE_BAND = 0.1  # bounds that are closer would look the same with two decimals
MAX_HELPLESS = 1.05  # a ceiling that could be higher than this may still be worth something

KINDS = {
    Kind.SWITCH: "switched in the running program",
    Kind.START: "set at the start, in launches of its own",
    Kind.CEILING: "a ceiling: taken away to see what it costs",
    Kind.CONTROL: "how restless this machine is",
    Kind.TOGETHER: "measured together",
}


def times(gain: Gain) -> str:
    """ "2.22x (1.97 to 2.63)", or "1.149x (1.142 to 1.156)" where the bounds are close."""
    value, low, high = _factors(gain)
    return f"{value}x ({low} to {high})"


def gain_and_bounds(gain: Gain) -> tuple[str, str]:
    """ "2.22x" and "1.97 to 2.63"."""
    value, low, high = _factors(gain)
    return f"{value}x", f"{low} to {high}"


def _factors(gain: Gain) -> list[str]:
    fine = gain.high - gain.low < FINE_BAND
    decimals = 3 if fine else 2 if gain.high < MIN_LARGE else 1
    return [f"{each:.{decimals}f}" for each in (gain.value, gain.low, gain.high)]


def faster(gain: Gain) -> str:
    """ "1.15x faster (1.14 to 1.16)"."""
    value, bounds = times(gain).split(" ", 1)
    return f"{value} faster {bounds}"


def promise(promised: Promised) -> str:
    """ "1.2x (1.0 to 1.3)"."""
    return f"{factor(promised.expected)} ({factor(promised.low).rstrip('x')} to {factor(promised.high).rstrip('x')})"


def beside_promise(kept: KeptTrial) -> str:
    """ "promised 1.00x to 1.3x, measured 1.149x (1.142 to 1.156)"; empty where nothing was measured."""
    if kept.measured is None:
        return ""
    low, value, high = kept.measured
    measured = f"measured {times(Gain(value, low, high))}"
    if kept.kind == Kind.CEILING.value:
        measured = f"{measured} with it taken away"
    if kept.promised is None:
        return measured
    least, _, most = kept.promised
    return f"promised {factor(least)} to {factor(most)}, {measured}"


def result(trial: Trial) -> str:
    """What a trial says, in a few words."""
    gain = trial.gain
    if gain is None or trial.candidate.kind is Kind.CONTROL or trial.verdict is Verdict.NO_DIFFERENCE:
        return meaning(trial)
    if trial.verdict is Verdict.SLOWER:
        return f"slower: {times(gain)}"
    between = "; " if trial.candidate.kind is Kind.CEILING else ", "
    return f"{times(gain)}{between}{meaning(trial)}"


def meaning(trial: Trial) -> str:
    """What a trial says, where the gain and its bounds stand beside it."""
    gain = trial.gain
    if trial.verdict is Verdict.REFUSED:
        return f"not tried, because {trial.candidate.against}" if trial.candidate.against else _failed(trial)
    if gain is None:
        return "not reached in the time that there was"
    most = _at_most(gain)
    if trial.candidate.kind is Kind.CONTROL:
        return f"differences below {percent(max(gain.high - 1, 1 - gain.low, 0.0))} are not seen here"
    if trial.verdict is Verdict.SLOWER:
        return "slower"
    if trial.candidate.kind is Kind.CEILING:
        if trial.verdict is Verdict.PROVED:
            return f"worth changing the code for, at most {most}"
        ends = ": mending it cannot help here" if gain.high <= MAX_HELPLESS else ""
        return f"{_of_at_most(gain)}{ends}"
    if trial.verdict is Verdict.NO_DIFFERENCE:
        return _of_at_most(gain)
    return "proved"


def _of_at_most(gain: Gain) -> str:
    return f"no difference measurable here (at most {_at_most(gain)})"


def _at_most(gain: Gain) -> str:
    return f"{_factors(gain)[2]}x"


def _failed(trial: Trial) -> str:
    return f"it failed: {trial.refused.rstrip('.')}"


def likeness(comparison: LossComparison) -> str:
    """Whether the program computes the same."""
    difference, baseline = comparison.difference or 0.0, comparison.baseline or 0.0
    return {
        Likeness.BIT_EQUAL: "bit-equal losses",
        Likeness.EQUAL: "losses equal within what two runs without it differ",
        Likeness.DIFFERS: f"losses differ by {_small(difference)} (two runs without it: {_small(baseline)})",
        Likeness.DIVERGES: "the losses diverge",
        Likeness.NOT_COMPARABLE: "losses could not be compared, because the script is not repeatable",
    }[comparison.likeness]


def _small(part: float) -> str:
    return f"{part:.1e}" if part else "0"


def about(trial: Trial) -> list[str]:
    """What else is to be known of a trial: its losses, memory and compiling."""
    said = []
    if trial.loss is not None:
        said.append(likeness(trial.loss))
    if trial.peak_bytes is not None and trial.gain is not None:
        before, after = trial.peak_bytes
        if before and abs(after - before) > MIN_MEMORY_CHANGE * before:
            said.append(f"peak memory {size(before)} -> {size(after)}")
    if trial.settling_ns > MIN_SETTLING_NS and trial.candidate.kind is Kind.SWITCH:
        said.append(f"the first steps with it took {duration(trial.settling_ns)} longer")
    return said


def line(trial: Trial) -> str:
    """One trial in one line."""
    candidate = trial.candidate
    promised = f", promised {promise(candidate.promised)}" if candidate.promised is not None else ""
    more = f" ({'; '.join(about(trial))})" if about(trial) else ""
    return f"{candidate.title}{promised}: {result(trial)}{more}"


def left_out(trials: Trials) -> list[str]:
    """What made no sense in the program, a sentence for each reason."""
    by_reason: dict[str, list[str]] = {}
    for each in trials.trials:
        if each.candidate.against:
            by_reason.setdefault(each.candidate.against, []).append(each.candidate.title)
    return [f"Not tried, because {reason}: {'; '.join(titles)}." for reason, titles in by_reason.items()]


def summary(trials: Trials) -> str:
    """The whole in one sentence."""
    control = trials.control
    if trials.restless and control is not None and control.gain is not None:
        return (
            f"This machine is too restless to tell: the unchanged program was {times(control.gain)} as fast as itself. "
            "Close what else runs here, or set a longer time limit."
        )
    best = trials.best
    if best is None or best.gain is None:
        measured = any(each.gain is not None for each in trials.trials)
        return (
            "None of these changes makes the program measurably faster here."
            if measured
            else "Nothing was measured."
        )
    if best.members:
        titles = [each.candidate.title for each in trials.trials if each.candidate.switch in best.members]
        count = len(best.members)
        return f"{count} changes together, measured: {faster(best.gain)}. {listed(titles)}."
    return f"{best.candidate.title}, measured: {faster(best.gain)}."


def no_patch(trials: Trials) -> str:
    """Why there is nothing to write into the script."""
    if not trials.winners:
        return "No patch: none of the changes won."
    return "No patch: no line of your own files was found that makes what won."


def unpatched(trials: Trials, switches: Sequence[str]) -> str:
    """What a patch leaves to do by hand."""
    titles = [each.candidate.title for each in trials.trials if each.candidate.switch in switches]
    return f"Not in the patch, because no line was found for it: {listed(titles or list(switches))}."


def caution(trials: Trials) -> list[str]:
    """What to know before the figures are trusted, as sentences."""
    said = []
    if trials.problem:
        said.append(trials.problem)
    if trials.different_sizes:
        said.append("The batches differ in size, so times are compared for each element of a batch.")
    if trials.ended == "time":
        said.append("Time ran out before everything was tried: a longer time limit leaves more for the rest.")
    return said
