"""What fixes promise, as text and as JSON, for the diagnosis and for ``stallscope whatif``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from parsers.model.units import duration
from rules import Diagnosis, Finding
from rules.analysis.analysis import Analysis
from rules.fixes.plan import Outcome, Plan, Promise, plan_of
from rules.verdict.promises import (
    ADDS_LITTLE,
    about_replay,
    depends_on,
    factor,
    held_back,
    measured_gains,
    no_fix_known,
    removed,
    together,
    usually,
    worded,
)
from rules.wording.words import Reader, listed
from viewer.appearance.plain_text import joined, one_line
from viewer.reports.rendering.terminal_report import wrapped

if TYPE_CHECKING:
    from rules.trials.record import FixRecord

MUCH_MORE = 0.02  # gained than by what stands above: then it is said why
Records = Mapping[str, "FixRecord"]
NONE: Records = MappingProxyType({})


def fixes_json(analysis: Analysis, diagnosis: Diagnosis, records: Records = NONE) -> dict[str, Any]:
    """The keys ``replay``, ``fixes`` and ``critical_path`` of the diagnosis; ``records``: of trials, by fix."""
    from rules.replay.critical_path import critical_path_of

    plan, reader = plan_of(analysis), Reader.of(analysis.trace)
    return {
        "replay": replay_json(plan),
        "fixes": [
            {
                **_fix(promise, diagnosis, reader),
                "here": _here(plan, promise, records.get(promise.proposal.fix)),
            }
            for promise in plan.promises
        ],
        "critical_path": critical_path_of(analysis).share(),
    }


def replay_json(plan: Plan) -> dict[str, Any]:
    """How well the replay reproduces the recording; ``reason`` says why there are no predictions."""
    replay = plan.replay
    known = replay.program is not None
    return {
        "error": round(replay.error, 4) if known else None,
        "recorder_share": round(replay.recorder_share, 4) if known else None,
        "steps": replay.steps,
        "reason": replay.reason or None,
        "withheld": [each.title for each in plan.withheld],
    }


def _fix(promise: Promise, diagnosis: Diagnosis, reader: Reader) -> dict[str, Any]:
    proposal = promise.proposal
    return {
        "fix": proposal.fix,
        "id": promise.id,
        "title": proposal.title,
        "rules": list(dict.fromkeys(each.rule for each in removed(promise, diagnosis))),
        "categories": [category.value for category in proposal.categories],
        "culprit": proposal.culprit,
        "rank": proposal.rank,
        "low": round(promise.low, 3),
        "expected": None if proposal.redesign else round(promise.expected, 3),
        "high": round(promise.high, 3),
        "after_others": round(promise.after_others, 3),
        "redesign": proposal.redesign,
        "depends_on": depends_on(promise),
        "measured": _measured(proposal.fix),
        "advice": list(proposal.remedy.advice_for(reader)),
        "code": proposal.remedy.code_for(reader),
    }


def _measured(fix: str) -> dict[str, Any] | None:
    """Of how many programs that nothing was fitted on, and which part of the predicted gain they usually had."""
    known = measured_gains().get(fix)
    return asdict(known) if known is not None else None


def _here(plan: Plan, promise: Promise, record: FixRecord | None) -> dict[str, Any] | None:
    """How promises of a fix held in trials on this machine, and the band that they make of this one."""
    if record is None:
        return None
    from rules.trials.record import promise_here

    expected = promise_here(plan, promise, record)
    band = {name: round(ns, 3) for name, ns in asdict(expected).items()} if expected is not None else {}
    return {"trials": record.trials, "held": record.held, **band}


def numbers_of_changes(promises: Sequence[Promise], reader: Reader) -> dict[str, int]:
    """The number of the change with an id, and of the one that says a sentence of advice or shows some code."""
    numbers: dict[str, int] = {}
    for number, promise in enumerate(promises, 1):
        remedy = promise.proposal.remedy
        for text in (promise.id, *remedy.advice_for(reader), remedy.code_for(reader)):
            numbers.setdefault(text, number)
    numbers.pop("", None)
    return numbers


def advice_beside(finding: Finding, changes: Mapping[str, int]) -> tuple[str, ...]:
    """The advice on a finding that no change above it says, after the number of the one that takes the finding away.

    Of one that none takes away, the numbers of the changes that say the rest stand there.
    """
    said = (finding.fix,) if finding.fix in changes else finding.advice
    numbers = sorted({changes[each] for each in said if each in changes})
    which = f"See change{'s' if len(numbers) > 1 else ''} {listed([str(each) for each in numbers])} above."
    return (*((which,) if numbers else ()), *(each for each in finding.advice if each not in changes))


def _kept_here(plan: Plan, promise: Promise, record: FixRecord) -> str:
    from rules.trials.record import promise_here
    from rules.verdict.trials import kept_here

    return kept_here(record, promise_here(plan, promise, record))


def fixes_text(analysis: Analysis, diagnosis: Diagnosis, records: Records = NONE) -> list[str]:
    """The fixes in the order in which they would be done, as lines; or why nothing is predicted.

    ``records`` of trials on this machine, by fix, stand beside the promises in place of those of other programs.
    """
    plan = plan_of(analysis)
    if not plan.promises:
        return [*wrapped(about_replay(plan)), ""]
    lines = [*wrapped(no_fix_known(analysis, diagnosis)), "What to change, in this order:"]
    for number, promise in enumerate(plan.promises, 1):
        mends = [each.title for each in removed(promise, diagnosis)]
        record = records.get(promise.proposal.fix)
        known = _kept_here(plan, promise, record) if record else usually(promise)
        known = " ".join(filter(None, (held_back(plan, promise), why_not_first(plan, number - 1), known)))
        lines += _promise_lines(number, promise, Reader.of(analysis.trace), mends, known)
    lines += wrapped(about_replay(plan), "  ", "  ")
    return [*map(one_line, lines), ""]


def why_not_first(plan: Plan, index: int) -> str:
    """Why a fix comes behind others that give less; empty where none does."""
    mine = plan.promises[index]
    above = max((each.expected for each in plan.promises[:index]), default=mine.expected)
    if mine.proposal.redesign or mine.expected <= above + MUCH_MORE + 1e-9:
        return ""
    if mine.proposal.broad:
        return "It may give more than those above, but changes much of the program."
    return "It may give more than those above, but how much is less certain." if mine.proposal.low else ""


def _promise_lines(
    number: int, promise: Promise, reader: Reader, mends: Sequence[str], known: str
) -> list[str]:
    """``known``: how well promises of the fix held elsewhere."""
    proposal = promise.proposal
    lines = wrapped(f"{number}. {proposal.title}", "", "   ")
    lines += wrapped(worded(promise), "   ", "   ")
    lines += wrapped(known and f"{known.rstrip('.')}.", "   ", "   ")
    for each in mends:
        lines += wrapped(f"also fixes: {each}", "   ", "      ")
    if number > 1 and not proposal.redesign and abs(promise.after_others - promise.expected) > 0.02:
        after = promise.after_others
        adds = f"{factor(after)} more" if after >= ADDS_LITTLE else "hardly anything more"
        lines.append(f"   After those above it adds {adds}.")
    for advice in proposal.remedy.advice_for(reader):
        lines += wrapped(advice, "   -> ", "      ")
    lines.append(f"   ({promise.id})")
    return lines


def outcome_json(plan: Plan, outcome: Outcome, chosen: list[Promise]) -> dict[str, Any]:
    """Some fixes made together; times in ns for a step without a recorder, idle times those of the busiest GPU."""
    from rules.fixes.simulation import simulate

    step = simulate(plan, outcome)
    return {
        "replay": replay_json(plan),
        "fixes": [promise.id for promise in chosen],
        "step_before_ns": round(outcome.before_ns),
        "step_after_ns": round(outcome.after_ns),
        "step_after_least_ns": round(outcome.least_ns),
        "step_after_most_ns": round(outcome.most_ns),
        "speedup": round(outcome.gain, 3) if outcome.is_credible else None,
        "idle_before_ns": {cause.key: ns for cause, ns in step.before.idle.items()},
        "idle_after_ns": {cause.key: ns for cause, ns in step.after.idle.items()},
    }


def outcome_text(plan: Plan, outcome: Outcome, chosen: list[Promise]) -> str:
    """Some fixes made together, as lines."""
    lines = [promise.proposal.title for promise in chosen]
    after = f"{duration(outcome.after_ns)} instead of {duration(outcome.before_ns)} for a step"
    band = f" ({duration(outcome.least_ns)} to {duration(outcome.most_ns)})" if outcome.is_credible else ""
    lines.append(f"Together: {after}, {together(outcome)}{band}.")
    lines += wrapped(about_replay(plan))
    return joined(lines)
