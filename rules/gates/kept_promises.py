"""What was promised for a program when it was recorded, and what its next recording shows of that."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from parsers.model.late import dataclass
from parsers.model.units import duration
from rules.comparison.gate import Judgement, Outcome
from rules.comparison.step_times import StepRatio
from rules.fixes.plan import Plan
from rules.verdict.promises import factor, worded

PARTLY = 0.8  # of what it gave before: a fix that gives less now was done in part


@dataclass(frozen=True, slots=True)
class KeptPromise:
    """What one fix promised when the run was recorded: factors, as in ``rules.fixes.plan.Promise``.

    ``after_others`` is what it adds to those that were proposed before it.
    """

    id: str
    title: str
    low: float
    expected: float
    high: float
    after_others: float = 1.0

    @property
    def band(self) -> str:
        """ "1.6 to 2.1x"."""
        return f"{factor(self.low).rstrip('x')} to {factor(self.high)}"


def promises_of(plan: Plan) -> tuple[KeptPromise, ...]:
    """The promises of a plan, to be kept."""
    return tuple(
        KeptPromise(each.id, each.proposal.title, each.low, each.expected, each.high, each.after_others)
        for each in plan.promises
    )


def since_then(promised: Sequence[KeptPromise], judgement: Judgement, plan: Plan, now: str) -> list[str]:
    """What became of the promises, and what is next, as sentences.

    ``judgement`` compares the recording with the one before, ``plan`` and the verdict ``now`` are those of today.
    A fix counts as done when it is not proposed any more.
    """
    if judgement.outcome is Outcome.NOT_COMPARABLE or judgement.ratio is None:
        return [f"Not compared with the previous recording: {judgement.reason}.", *_next(plan)]
    ratio = judgement.ratio
    still = {each.id: each for each in promises_of(plan)}
    done = [each for each in promised if each.id not in still]
    if done:
        return [*_done(done, ratio, now), *_next(plan)]
    for each in promised:
        left = still[each.id].expected
        if left - 1 < PARTLY * (each.expected - 1) and ratio.is_seen and ratio.mean < 1:
            got = f"promised {each.band}, got {_got(ratio)} so far; about {factor(left)} is left"
            return [f"{each.title}: {got}.", *_next(plan)]
    change = _change(judgement)
    if not promised:
        return [f"Nothing was promised for the previous recording. {change}", *_next(plan)]
    first = promised[0]
    return [f"Not done: {first.title} (promised {first.band}). {change}", *_next(plan)]


def _done(done: Sequence[KeptPromise], ratio: StepRatio, now: str) -> list[str]:
    """Of several, at least the best alone was promised, and at most the best with what the others add to it."""
    best = max(done, key=lambda each: each.high)
    low = max(each.low for each in done)
    high = best.high * prod(max(each.after_others, 1.0) for each in done if each is not best)
    least, most = 1 / ratio.high, 1 / ratio.low
    if most < low:
        answer = f"less than promised. Now first: {now}"
    elif least > high:
        answer = "done, and more than promised"
    else:
        answer = "done"
    if len(done) == 1:
        return [f"{done[0].title}: promised {done[0].band}, got {_got(ratio)}: {answer}."]
    titles = "; ".join(f"{each.title} ({each.band})" for each in done)
    band = f"{factor(low).rstrip('x')} to {factor(high)}"
    return [f"{titles}: together promised {band}, got {_got(ratio)}: {answer}."]


def _got(ratio: StepRatio) -> str:
    """How much faster a step is, with its bounds where they say less."""
    least, gain, most = (factor(1 / each) for each in (ratio.high, ratio.mean, ratio.low))
    return gain if least == most else f"{gain} ({least.rstrip('x')} to {most})"


def _change(judgement: Judgement) -> str:
    ratio = judgement.ratio
    assert ratio is not None
    times = f"{duration(ratio.after.mean)} instead of {duration(ratio.before.mean)}"
    if judgement.outcome is Outcome.NO_DIFFERENCE_SEEN:
        return f"A step takes {times}: no difference beyond the noise."
    return f"A step takes {times}: {judgement.outcome.value}."


def _next(plan: Plan) -> list[str]:
    if not plan.promises:
        return [f"Next: no fix is proposed ({plan.reason})." if plan.reason else "Next: no fix is proposed."]
    first = plan.promises[0]
    return [f"Next: {first.proposal.title}: {worded(first)}."]
