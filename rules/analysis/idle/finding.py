"""The finding of a rule about idle time of one cause: its numbers, its place and its title follow from that time."""

from __future__ import annotations

from rules.analysis.arithmetic.intervals import pairs
from rules.analysis.idle.lost_time import IdleTime
from rules.base import Finding, Rule, severity_of


def idle_finding(
    rule: Rule,
    waiting: IdleTime,
    headline: str,
    explanation: str,
    advice: tuple[str, ...],
    code: str,
    cannot_tell: str,
) -> Finding:
    """What ``rule`` says of ``waiting``; the headline gets the share of the step, the explanation who is worst."""
    analysis, ceiling = waiting.analysis, waiting.ns
    return Finding(
        rule=rule.id,
        category=rule.category,
        severity=severity_of(ceiling, analysis.window_ns),
        title=f"{headline}: {waiting.extent.share(ceiling)}",
        explanation=explanation + waiting.spread,
        advice=advice,
        ceiling_ns=ceiling,
        window_ns=analysis.window_ns,
        culprit=waiting.culprit,
        rank=waiting.rank,
        device=waiting.device,
        evidence=waiting.evidence(),
        intervals=pairs(waiting.intervals),
        code=code,
        cannot_tell=cannot_tell,
    )
