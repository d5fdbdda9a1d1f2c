"""What is told of a recording by its fixes, where no rule says it: a finding for each that is worth making."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.base import Evidence, Finding, Severity, severity_of
from rules.fixes.plan import Plan, Promise
from rules.fixes.removal import Removal, removal_of
from rules.losses.lost_time import MAX_EVIDENCE, event_evidence
from rules.terms import NOBODY, reason
from rules.wording.words import Headline, Part, Reader

MIN_UNREPORTED_GAIN = 0.05  # of a step: a fix that gives more is told, though no rule reports what it mends


def gives_of(promise: Promise) -> float:
    """The part of a step that a fix takes away."""
    gain = promise.low if promise.proposal.redesign else promise.expected
    return 1.0 - 1.0 / max(gain, 1.0)


def names_itself(promise: Promise) -> bool:
    """Whether a fix is worth telling and says what is wrong, which no rule does."""
    return bool(promise.proposal.problem) and gives_of(promise) >= MIN_UNREPORTED_GAIN


def is_unreported(promise: Promise, findings: Sequence[Finding]) -> bool:
    """Whether a fix is worth telling and no rule reports anything of its kind."""
    reported = {each.category for each in findings if each.severity is not Severity.INFO}
    return gives_of(promise) >= MIN_UNREPORTED_GAIN and reported.isdisjoint(promise.proposal.categories)


def finding_of(analysis: Analysis, plan: Plan, promise: Promise) -> Finding:
    """What a fix is about that no rule reports, so that each fix worth making has a finding."""
    proposal, share = promise.proposal, gives_of(promise)
    part = Part(share, analysis.steps_in_window)
    return Finding(
        rule=proposal.fix,
        category=proposal.categories[0],
        severity=severity_of(share, 1.0),
        headline=(
            Headline(proposal.problem, part, names_culprit=True)
            if proposal.problem
            else Headline(proposal.title)
        ),
        account=f"With this fixed, a step would be {percent(share)} shorter.",
        remedy=proposal.remedy,
        ceiling_ns=0,
        window_ns=analysis.window_ns,
        culprit=reason(proposal.culprit) if proposal.culprit else NOBODY,
        evidence=_evidence(analysis, removal_of(plan.replay, proposal), proposal.culprit),
        rank=proposal.rank,
        usual_share=share,
        fix=promise.id,
        reader=Reader.of(analysis.trace),
    )


def _evidence(analysis: Analysis, removal: Removal, culprit: str) -> tuple[Evidence, ...]:
    """The operations that a change makes shorter; where it makes none shorter, the time of the CPU that it saves."""
    on_gpu = event_evidence(analysis.trace, removal.shorter)
    if on_gpu:
        return on_gpu
    calls, gaps = removal.quicker
    table, events = analysis.trace.events, removal.replay.host.event[calls[:MAX_EVIDENCE]]
    columns = (each[events].tolist() for each in (table.lane, table.start, table.name))
    return tuple(
        Evidence(lane, start - gap, start, culprit or analysis.trace.strings[name])
        for lane, start, name, gap in zip(*columns, gaps[:MAX_EVIDENCE].tolist(), strict=True)
    )
