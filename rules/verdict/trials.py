"""What is said of changes that were tried in a running program."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.model.units import duration, percent, size
from rules.trials.blocks import Gain
from rules.trials.likeness import Likeness, LossComparison
from rules.trials.record import FixRecord, KeptTrial
from rules.trials.trial import MAX_TELLING, Kind, Promised, Trial, Trials, Verdict
from rules.verdict.promises import factor
from rules.wording.words import listed

MIN_SETTLING_NS = 1e9  # less than a second of compiling is nothing to speak of
MIN_MEMORY_CHANGE = 0.01
MIN_LARGE = 10.0  # times as fast
FINE_BAND = 0.1  # bounds that are closer would look the same with two decimals
MAX_HELPLESS = 1.05  # a ceiling that could be higher than this may still be worth something

KINDS = {
    Kind.SWITCH: "switched on and off while it runs",
    Kind.START: "set at launch, in separate runs",
    Kind.CEILING: "a ceiling: removed to see what it costs",
    Kind.CONTROL: "how noisy this machine is",
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
        measured = f"{measured} with it removed"
    if kept.promised is None:
        return measured
    least, _, most = kept.promised
    return f"promised {factor(least)} to {factor(most)}, {measured}"


def kept_here(record: FixRecord, expected_here: Promised | None) -> str:
    """ "On this machine, 7 trials measured 0.85 to 1.10 times the promise: expect 1.1x (1.0 to 1.3)"."""
    found = record.correction
    if found is None or expected_here is None:
        if record.trials == 1:
            return f"The promise {'held' if record.held else 'did not hold'} in the one trial on this machine"
        return f"The promise held in {record.held} of {record.trials} trials on this machine"
    times_of_promise = " to ".join(dict.fromkeys((f"{found.low:.2f}", f"{found.high:.2f}")))
    return (
        f"On this machine, {len(record.ratios)} trials measured {times_of_promise} times the promise: "
        f"expect {promise(expected_here)}"
    )


def result(trial: Trial) -> str:
    """What a trial says, in a few words."""
    gain = trial.gain
    if gain is None or trial.candidate.kind is Kind.CONTROL:
        return meaning(trial)
    if trial.verdict is Verdict.NO_DIFFERENCE:
        bounds = f" ({gain_and_bounds(gain)[1]})" if gain.high > MAX_TELLING else ""
        return f"{meaning(trial)}{bounds}"
    if trial.verdict is Verdict.SLOWER:
        return f"slower: {times(gain)}"
    between = "; " if trial.candidate.kind is Kind.CEILING else ", "
    return f"{times(gain)}{between}{meaning(trial)}"


def meaning(trial: Trial) -> str:
    """What a trial says, where the gain and its bounds stand beside it."""
    gain = trial.gain
    if trial.verdict is Verdict.REFUSED:
        return f"not applicable: {trial.candidate.against}" if trial.candidate.against else _failed(trial)
    if gain is None:
        return "not measured"
    most = _at_most(gain)
    if trial.candidate.kind is Kind.CONTROL:
        if gain.high > MAX_TELLING or gain.low < 1 / MAX_TELLING:
            return "too noisy here: varies by more than a factor of two on its own"
        return f"varies by up to {percent(max(gain.high - 1, 1 - gain.low, 0.0))} on its own"
    if trial.verdict is Verdict.SLOWER:
        return "slower"
    if trial.candidate.kind is Kind.CEILING:
        if trial.verdict is Verdict.PROVED:
            return f"worth a code change: up to {most}"
        ends = ": fixing it can't help here" if gain.high <= MAX_HELPLESS else ""
        return f"{_of_at_most(gain)}{ends}"
    if trial.verdict is Verdict.NO_DIFFERENCE:
        return _of_at_most(gain)
    return "proved"


def _of_at_most(gain: Gain) -> str:
    if gain.high > MAX_TELLING:
        return "too noisy to tell"
    measured = "gain" if gain.low < 1 / MAX_TELLING else "difference"
    return f"no measurable {measured} (at most {_at_most(gain)})"


def _at_most(gain: Gain) -> str:
    return f"{_factors(gain)[2]}x"


def _failed(trial: Trial) -> str:
    return f"it failed: {trial.refused.rstrip('.')}"


def likeness(comparison: LossComparison) -> str:
    """Whether the program computes the same."""
    difference, baseline = comparison.difference or 0.0, comparison.baseline or 0.0
    return {
        Likeness.BIT_EQUAL: "bit-equal losses",
        Likeness.EQUAL: "losses equal to within the run-to-run difference",
        Likeness.DIFFERS: f"losses differ by {_small(difference)} (run to run: {_small(baseline)})",
        Likeness.DIVERGES: "the losses diverge",
        Likeness.NOT_COMPARABLE: "losses can't be compared: the script gives different losses on every run",
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
    if trial.gain is not None and trial.settling_ns > MIN_SETTLING_NS and trial.candidate.kind is Kind.SWITCH:
        said.append(f"the first steps took {duration(trial.settling_ns)} longer")
    return said


def line(trial: Trial) -> str:
    """One trial in one line."""
    candidate = trial.candidate
    promised = f", promised {promise(candidate.promised)}" if candidate.promised is not None else ""
    more = f" ({'; '.join(about(trial))})" if about(trial) else ""
    return f"{candidate.title}{promised}: {result(trial)}{more}"


def left_out(trials: Trials) -> list[str]:
    """What does not apply to the program, a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for each in trials.trials:
        if each.candidate.against:
            by_reason.setdefault(each.candidate.against, []).append(each.candidate.title)
    return [f"Not applicable ({reason}): {'; '.join(titles)}." for reason, titles in by_reason.items()]


def summary(trials: Trials) -> str:
    """The whole in one sentence."""
    control = trials.control
    if trials.restless and control is not None and control.gain is not None:
        return (
            "This machine is too noisy to tell: "
            f"the unchanged program measured {times(control.gain)} as fast as itself. "
            "Close other programs, or raise the time limit."
        )
    best = trials.best
    if best is None or best.gain is None:
        fit = [each for each in trials.trials if each.verdict is not Verdict.REFUSED]
        measured = sum(each.gain is not None for each in fit)
        if not measured:
            return "Nothing was measured."
        if measured < len(fit):
            return f"No gain so far: {measured} of {len(fit)} changes measured."
        return "None of these changes makes the program measurably faster here."
    if best.members:
        titles = [each.candidate.title for each in trials.trials if each.candidate.switch in best.members]
        count = len(best.members)
        return f"Measured with {count} changes together: {faster(best.gain)}. {_sentence(titles)}."
    return f"Measured: {faster(best.gain)}. {best.candidate.title}."


def no_patch(trials: Trials) -> str:
    """Why there is nothing to write into the script."""
    if not trials.winners:
        return "No patch: no change made the program faster."
    return "No patch: no line of your own code was found to change."


def unpatched(trials: Trials, switches: Sequence[str]) -> str:
    """What a patch leaves to do by hand."""
    titles = [each.candidate.title for each in trials.trials if each.candidate.switch in switches]
    return f"Not in the patch, because no line was found to change: {_sentence(titles or list(switches))}."


def _sentence(titles: Sequence[str]) -> str:
    """Titles in one sentence, of which only the first begins with a capital."""
    return listed(
        [title if not number else title[:1].lower() + title[1:] for number, title in enumerate(titles)]
    )


def caution(trials: Trials) -> list[str]:
    """What to know before the figures are trusted, as sentences."""
    said = []
    if trials.problem:
        said.append(trials.problem)
    if trials.different_sizes:
        said.append("Batch sizes differ, so times are compared per element.")
    if trials.ended == "time":
        limit = f"the time limit to about {trials.needed_s} s" if trials.needed_s else "the time limit"
        left = [each.candidate.title for each in trials.trials if each.verdict is Verdict.NOT_REACHED]
        what = f"Not tried, because time ran out: {'; '.join(left)}." if left else "Time ran out."
        rest = "the rest" if not left else "it" if len(left) == 1 else "them"
        said.append(f"{what} Raise {limit} to try {rest}.")
    return said
