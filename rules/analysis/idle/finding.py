"""The finding of a rule about idle time of one cause: its numbers, its place and its title follow from that time."""

from __future__ import annotations

from rules.analysis.arithmetic.intervals import pairs
from rules.analysis.idle.lost_time import IdleTime
from rules.base import Category, Finding, Rule
from rules.wording.headline import Headline
from rules.wording.words import Words

MOST_OF_IT = 0.5


def idle_finding(
    rule: Rule,
    waiting: IdleTime,
    what: Words,
    account: Words,
    remedies: tuple[Words, ...],
    example: Words,
    unknown: tuple[Words, ...],
    category: Category | None = None,
) -> Finding:
    """What ``rule`` says of ``waiting``; the headline gets the share of the step, the account who is worst."""
    analysis, ceiling = waiting.analysis, waiting.ns
    return rule.finding(
        analysis,
        category=category or rule.category,
        headline=Headline(what, waiting.extent.share(ceiling)),
        account=account + waiting.spread,
        remedies=remedies,
        ceiling_ns=ceiling,
        culprit=waiting.culprit,
        rank=waiting.rank,
        device=waiting.device,
        evidence=waiting.evidence(),
        intervals=pairs(waiting.intervals),
        example=example,
        unknown=unknown,
        divided=rule.category is Category.HOST_BOUND and waiting.blames[0].ns < MOST_OF_IT * waiting.worst_ns,
    )
