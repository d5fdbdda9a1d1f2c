"""What is said of fixes: how much faster a step would be, what decides that, and what else would be gone."""

from __future__ import annotations

import json
from functools import cache

import resources
from parsers.model.late import dataclass
from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis
from rules.causes import leading
from rules.diagnosis import Diagnosis
from rules.findings.base import Category, Finding
from rules.fixes.plan import Outcome, Plan, Promise
from rules.fixes.step_time import MIN_RECORDER_SHARE
from rules.terms import MAJORITY
from rules.verdict.verdict import first_problem, shows_no_run
from rules.wording.words import Part, listed, part_of

FILE = "measured_gains.json"


@dataclass(frozen=True, slots=True)
class MeasuredGains:
    """Measured gains of ``programs``: four of five are ``low`` to ``high`` times the predicted ones."""

    programs: int
    low: float
    high: float


@cache
def measured_gains() -> dict[str, MeasuredGains]:
    """By the id of the fix; only of fixes that were measured in enough programs."""
    told = json.loads(resources.path(FILE).read_text("utf-8"))
    return {
        fix: MeasuredGains(int(each["programs"]), each["low"], each["high"]) for fix, each in told.items()
    }


MIN_MISSED = 0.001  # a smaller part is not told exactly: no replay is
ADDS_LITTLE = 1.02
MIN_SPEEDUP = 1.01  # less is nothing to speak of
MAX_FACTOR = 50.0  # of a kernel: a larger one is what arithmetic allows, and nobody reaches
TOO_LITTLE_LEFT = "too little would be left to give a speed-up factor"
MIN_TAKEN = 0.2  # of a step, off the GPU's work: less is not missed
OTHER_SHARE = 0.005  # of the window: a share that differs more from the headline's is told


HARDLY = "hardly faster"  # what is said of less than anybody would notice


def worded(promise: Promise) -> str:
    """ "about 2.0x faster (1.7 to 2.3x)", or what a wide band and a redesign say instead."""
    low, high = factor(promise.low), factor(promise.high)
    if promise.proposal.redesign:
        return f"{low} to {high} faster, {promise.proposal.depends_on}"
    if promise.vague:
        least = f"at least {low}" if promise.low >= ADDS_LITTLE else "possibly nothing"
        return f"{least}, possibly up to {high} faster, depending on {promise.proposal.depends_on or 'the profiler'}"
    if promise.expected < MIN_SPEEDUP:
        return f"{HARDLY} by itself (up to {high})"
    if promise.low < ADDS_LITTLE:
        return f"about {factor(promise.expected)} faster (possibly nothing, up to {high})"
    return f"about {factor(promise.expected)} faster ({low.rstrip('x')} to {high})"


def usually(promise: Promise) -> str:
    """How far off predictions of the same fix were in other programs, as a sentence; empty where too few were tried."""
    known = measured_gains().get(promise.proposal.fix)
    if known is None or promise.proposal.redesign:
        return ""
    return (
        f"In {known.programs} programs that nothing was fitted on, this fix usually gave {known.low:.2g} to "
        f"{known.high:.2g} times the predicted gain."
    )


def held_back(plan: Plan, promise: Promise) -> str:
    """That a step hardly gains what a fix takes off the GPU's work, as a sentence; empty where it gains most of it."""
    replay = plan.replay
    less = replay.gpu_work() - replay.gpu_work([promise.proposal.expected])
    saved = replay.usual_ns * (1.0 - 1.0 / promise.expected)
    if promise.proposal.redesign or less < MIN_TAKEN * replay.usual_ns or saved >= MAJORITY * less:
        return ""
    return (
        f"It takes {duration(round(less))} off the GPU's work in a step, but the step becomes only "
        f"{duration(round(max(saved, 0.0)))} shorter: the GPU then waits for the CPU."
    )


def worded_shortly(promise: Promise) -> str:
    """ "about 2.0x", or "1.2x to 4x" and "up to 4x" where what a fix gives is not known better."""
    if promise.vague or promise.proposal.redesign:
        high = factor(promise.high)
        return f"{factor(promise.low)} to {high}" if promise.low >= ADDS_LITTLE else f"up to {high}"
    return f"about {factor(promise.expected)}" if promise.expected >= MIN_SPEEDUP else HARDLY


def factor(gain: float) -> str:
    """ "2.3x", "1.08x", "17x"."""
    if gain < 1.2:
        return f"{gain:.2f}x"
    return f"{gain:.1f}x" if gain < 10 else f"{gain:.0f}x"


def together(outcome: Outcome) -> str:
    """ "about 2.0x faster", of fixes made together, or why no factor is told."""
    if outcome.is_credible:
        return f"about {factor(outcome.gain)} faster"
    return TOO_LITTLE_LEFT


def depends_on(promise: Promise) -> str:
    """What decides within a wide band; empty where it is narrow."""
    return promise.proposal.depends_on if promise.vague or promise.proposal.redesign else ""


def removed(promise: Promise, diagnosis: Diagnosis) -> list[Finding]:
    """The findings that a fix takes away, first the one that tells best what is wrong."""
    return [each for each in diagnosis.findings if each.fix == promise.id]


def promise_for(finding: Finding, plan: Plan | None) -> Promise | None:
    """The fix of a plan that takes a finding away; None where none does, and until the plan is known."""
    promises = plan.promises if plan is not None and finding.fix else ()
    return next((each for each in promises if each.id == finding.fix), None)


def advice_on(finding: Finding, plan: Plan | None) -> tuple[str, ...]:
    """What to try: first what the fix says that takes a finding away, of the one that leads; then what else helps."""
    promise = promise_for(finding, plan) if finding.leads else None
    first = promise.proposal.remedy.advice_for(finding.reader) if promise is not None else ()
    return (*first, *(each for each in finding.advice if each not in first))


def gain(finding: Finding, plan: Plan | None = None, *, short: bool = False) -> str:
    """What is told beside a finding: what its fix gives, else the share of the time that it speaks of.

    "32.1 ms instead of 10.1 s without it" of what belongs to the recording, "at most 2.3x faster" of a kernel's own
    limit, and nothing where the title says the share already.
    """
    promise = promise_for(finding, plan)
    if plan is not None and promise is not None and not finding.leads:
        return "" if short else f"fixed by change {plan.promises.index(promise) + 1}"
    at_most = finding.speedup_at_most
    if at_most is not None and at_most < MIN_SPEEDUP:
        return ""
    if finding.of_recording:
        rest = duration(max(finding.window_ns - finding.ceiling_ns, 0))
        return (
            f"{rest} without it" if short else f"{rest} instead of {duration(finding.window_ns)} without it"
        )
    if finding.kernel is not None and at_most is not None and at_most <= MAX_FACTOR:
        return f"at most {three_digits(at_most)}x{'' if short else ' faster'}"
    if promise is None and finding.fix:
        return ""
    if promise is not None and (promise.vague or promise.expected >= MIN_SPEEDUP):
        return worded_shortly(promise) + ("" if short else " faster")
    if promise is not None:
        return HARDLY if short else f"{HARDLY} by itself"
    amount = finding.headline.amount
    if isinstance(amount, Part) and abs(amount.share - finding.share) <= OTHER_SHARE:
        return ""
    return f"up to {percent(finding.share)} of the time"


def first_step(plan: Plan, diagnosis: Diagnosis) -> str:
    """What to do first, what it gives, and what else is gone then, or that nothing is to be done, as sentences.

    Empty where neither can be said.
    """
    if shows_no_run(plan.replay.analysis, diagnosis):
        return ""
    if not plan.promises:
        computes = any(each.category is Category.GPU_BOUND for each in diagnosis.findings)
        is_sound = computes and not plan.reason and first_problem(diagnosis) is None
        return (
            "Nothing to gain between the kernels: the GPU is computing nearly all the time."
            if is_sound
            else ""
        )
    promise, first = plan.promises[0], leading(plan.replay.analysis, diagnosis.findings)
    mends = removed(promise, diagnosis)
    is_first = first is None or first.fix == promise.id or not first.category.accuses
    begin = "Do this first" if is_first else "Of the fixes with a known gain, do this first"
    unknown = depends_on(promise)
    faster = f"{worded_shortly(promise)} faster" if unknown else worded(promise)
    text = f"{begin}, {faster}: {promise.proposal.title}."
    if unknown:
        text += f" The gain depends on {unknown}."
    gone = [each for each in mends if each is not first]
    if gone:
        text += f" Also fixes: {listed([each.headline.matter(each.reader) for each in gone[:2]])}."
    return text


def first_step_in_a_line(plan: Plan, diagnosis: Diagnosis) -> str:
    """What to do first, a step before and after, and the band of the gain: "Move it · 46.4 → 23.2 ms a step · ...".

    The sentence of ``first_step`` where nothing is to be done.
    """
    if not plan.promises or shows_no_run(plan.replay.analysis, diagnosis):
        return first_step(plan, diagnosis)
    promise, first = plan.promises[0], leading(plan.replay.analysis, diagnosis.findings)
    is_first = first is None or first.fix == promise.id or not first.category.accuses
    title = promise.proposal.title if is_first else f"With a known gain: {promise.proposal.title}"
    return " · ".join(each for each in (title, step_with(promise, plan), worded(promise)) if each)


def step_with(promise: Promise, plan: Plan) -> str:
    """ "142 → 78.2 ms a step" without the recorder, or "142 → 60.1 to 120 ms a step" of a wide band.

    "In a typical step" where some were slow by chance. Empty where a fix is a redesign or by itself gives nothing.
    """
    before = plan.replay.usual_ns
    if promise.proposal.redesign or (promise.expected < MIN_SPEEDUP and not promise.vague):
        return ""
    one = "a step" if plan.replay.is_mean else "in a typical step"
    of = f" {one}" if plan.replay.analysis.steps_in_window else ""
    if promise.vague:
        least, most = (round(before / max(each, 1.0)) for each in (promise.high, promise.low))
        unit = f" {duration(most).rpartition(' ')[2]}"
        return f"{duration(round(before)).removesuffix(unit)} → {part_of(least, most, 'to')}{of}"
    return f"{part_of(before, before / promise.expected, '→')}{of}"


def no_fix_known(analysis: Analysis, diagnosis: Diagnosis) -> str:
    """What limits a step before anything that a fix is known for, as a sentence; empty where that is nothing."""
    first = leading(analysis, diagnosis.findings)
    if first is None or first.fix or not first.category.accuses:
        return ""
    return f"The biggest problem, whose gain is not known: {first.title}."


def about_replay(plan: Plan) -> str:
    """How far the predictions can be trusted, as a sentence; why there are none, where there are none."""
    replay = plan.replay
    if plan.reason:
        return f"No predictions, because {plan.reason}."
    if not plan.promises and plan.once:
        return _came_once(plan)
    if not plan.promises and not plan.withheld:
        return "None of the known fixes has a gain that can be predicted here."
    counted = f"{replay.steps} step{'s' if replay.steps != 1 else ''}"
    missed = percent(replay.error) if replay.error >= MIN_MISSED else f"less than {percent(MIN_MISSED)}"
    text = f"Predicted by replaying {counted}; the replay differs from the recording by {missed}."
    if replay.recorder_share >= MIN_RECORDER_SHARE:
        text += f" About {percent(replay.recorder_share)} of a step is profiler overhead, which is left out."
    if plan.withheld:
        titles = listed([each.title for each in plan.withheld])
        text += f" Not predicted: {titles}, out of {duration(round(replay.usual_ns))}; {TOO_LITTLE_LEFT}."
    return f"{text} {_came_once(plan)}" if plan.once else text


def _came_once(plan: Plan) -> str:
    titles = listed([each.title[:1].lower() + each.title[1:] for each in plan.once])
    return (
        "This happened only once in the recording, so fixing it may not make later steps faster; no gain is "
        f"predicted: {titles}."
    )
