"""Kernels wait for pages of unified memory that move to the GPU as they touch them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, CopyKind, EventKind
from parsers.model.late import dataclass
from parsers.model.names.kernels import is_migration, kernel_name
from parsers.model.names.per_name import named
from parsers.model.units import duration, how_many, percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, durations, length, measure, pairs, union
from rules.analysis.gpu.copies import copies_of
from rules.analysis.gpu.inside_window import operations
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import event_evidence, extent
from rules.remedies.copies import PREFETCH_PAGES
from rules.terms import MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import Headline, share, shortened

MIN_MOVING = 0.25  # of a kernel's time while pages move: less costs a long kernel little


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Kernels of one device that wait for pages, and those pages' moves, both as events."""

    device: int
    kernels: I64
    moves: I64
    moving: Intervals

    def alone(self, analysis: Analysis) -> Intervals:
        """The time of the kernels in the analysed window."""
        table = analysis.trace.events
        return clip(union(*table.spans(self.kernels)), *analysis.window)


@rule
class PagesInKernels(Rule):
    id = "pages-in-kernels"
    category = Category.COPY_H2D
    needs = frozenset({Need.GPU_EVENTS})
    explanation = """
What it found
    While kernels run, pages of unified (managed) memory move from the host to the GPU.

Why it costs time
    A kernel that touches a page which is on the host stops there until the driver has moved it: tens of microseconds
    for a few kilobytes. The kernel looks busy, and waits.

How it decides
    It takes the kernels during which pages move to the GPU for at least a quarter of their time. All of their time is
    the ceiling: the rest of it, they mostly wait for the faults themselves.

What to try
    Prefetch the data before the kernel (cudaMemPrefetchAsync), or allocate it on the GPU and copy it in one piece.

When it is wrong
    The data must reach the GPU once, so the time of one large copy remains. A kernel that computes a lot for each page
    would take long without the faults, too.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        worst = max(
            (_waiting(analysis, device) for device in analysis.active_devices),
            key=lambda each: length(each.alone(analysis)),
            default=None,
        )
        if worst is None or not len(worst.kernels):
            return
        alone = worst.alone(analysis)
        if share(analysis, length(alone)) < analysis.thresholds[MIN_SHARE]:
            return
        trace, found_in = analysis.trace, extent(analysis, alone, worst.device)
        longest = worst.kernels[durations(trace, worst.kernels).argmax()]
        name = shortened(kernel_name(trace.name(int(longest))), 90)
        yield self.finding(
            analysis,
            headline=Headline("Kernels wait for pages of unified memory", found_in.share(length(alone))),
            account=_account(analysis, worst, name)
            + f" Kernels like it take {found_in.part(length(alone))}.",
            remedy=PREFETCH_PAGES,
            ceiling_ns=length(alone),
            culprit=Culprit(CulpritKind.KERNEL, name),
            device=worst.device,
            evidence=event_evidence(trace, worst.kernels),
            intervals=pairs(alone),
            unknown=("How long the kernel takes once its data is there: record it again after prefetching.",),
            confidence="medium",
        )


def _waiting(analysis: Analysis, device: int) -> _Waiting:
    trace = analysis.trace
    table = trace.events
    moves = copies_of(analysis, device, CopyKind.H2D).events
    moves = moves[named(trace, moves, is_migration)]
    moving = union(*table.spans(moves))
    kernels = operations(analysis, device, EventKind.KERNEL)
    inside = measure(moving, *table.spans(kernels))
    waits = (inside > 0) & (inside >= MIN_MOVING * durations(trace, kernels))
    return _Waiting(device, kernels[waits], moves, moving)


def _account(analysis: Analysis, waiting: _Waiting, name: str) -> str:
    """What moves during the longest of the kernels."""
    trace = analysis.trace
    table, took = trace.events, durations(trace, waiting.kernels)
    longest = waiting.kernels[took.argmax()]
    start, end = int(table.start[longest]), int(table.end[longest])
    inside = waiting.moves[(table.start[waiting.moves] < end) & (table.end[waiting.moves] > start)]
    amount = int(np.asarray(trace.attribute(Attribute.BYTES, inside)).sum())
    part = length(clip(waiting.moving, start, end)) / max(end - start, 1)
    moved = f", {size(amount)} in all," if amount else ""
    return (
        f"{name} runs for {duration(end - start)}, and for {percent(part)} of that time pages move to the GPU as it "
        f"touches them: {how_many(len(inside), 'piece')}{moved} instead of one copy."
    )
