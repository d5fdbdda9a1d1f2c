"""What the two rules have in common about copies between host and GPU that nothing on the GPU overlaps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from parsers.model import CopyKind, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import pairs
from rules.analysis.gpu.copies import Copies, worst_copies
from rules.findings.base import Finding, Remedy, Rule
from rules.losses.concentration import Extent, extent
from rules.losses.host_link import LinkUse, is_slow, link_sentence, link_use
from rules.losses.lost_time import event_evidence
from rules.remedies.copies import PINNED_AT_FULL_SPEED
from rules.terms.culprit import Culprit
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import share
from rules.wording.words import Words


class ExposedCopies(Rule):
    """Speaks of the GPU that loses most by copies of one direction."""

    direction: ClassVar[CopyKind]
    title: ClassVar[str]
    title_of_pages: ClassVar[str]

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace, worst = analysis.trace, worst_copies(analysis, self.direction)
        if worst is None or share(analysis, worst.exposed_ns) < analysis.thresholds[MIN_SHARE]:
            return
        pageable, use = worst.from_pageable, None if worst.are_migrations else link_use(trace, worst)
        found_in = extent(analysis, worst.exposed, worst.device)
        are_pages = worst.are_migrations and not worst.are_prefetched
        faster = PINNED_AT_FULL_SPEED if is_slow(use, pageable) else ()
        yield self.finding(
            analysis,
            headline=Headline(
                self.title_of_pages if are_pages else self.title, found_in.share(worst.exposed_ns)
            ),
            account=self.account(worst, use, found_in) + link_sentence(use, pageable),
            remedy=self.less(trace, worst, found_in).and_then(*faster),
            ceiling_ns=worst.exposed_ns,
            culprit=self.culprit(trace, worst),
            device=worst.device,
            evidence=event_evidence(trace, worst.events),
            intervals=pairs(worst.exposed),
            unknown=self.unknown(trace, worst),
        )

    @abstractmethod
    def account(self, copies: Copies, use: LinkUse | None, found_in: Extent) -> str: ...

    @abstractmethod
    def less(self, trace: Trace, copies: Copies, found_in: Extent) -> Remedy: ...

    @abstractmethod
    def culprit(self, trace: Trace, copies: Copies) -> Culprit: ...

    @abstractmethod
    def unknown(self, trace: Trace, copies: Copies) -> tuple[Words, ...]: ...
