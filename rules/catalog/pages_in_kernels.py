"""Kernels that wait for pages of unified memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import Attribute
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, how_many, percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import EMPTY, Intervals, clip, durations, length, pairs
from rules.analysis.gpu.unified_memory import (
    KernelsOnPages,
    mostly_leave,
    pages_in_kernels,
    waiting_for_pages,
)
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import event_evidence, extent
from rules.remedies.copies import PREFETCH_PAGES
from rules.terms import MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import Headline, Words, listed, share, shortened


@rule
class PagesInKernels(Rule):
    id = "pages-in-kernels"
    category = Category.COPY_H2D
    needs = frozenset({Need.GPU_EVENTS})
    explanation = """
What it found
    While kernels run, pages of unified (managed) memory move, or the GPU reports page faults.

Why it costs time
    A kernel that touches a page which is not on the GPU stops there until the driver has moved it: tens of
    microseconds for a few kilobytes. The kernel looks busy, and waits. Where more memory is in use than the GPU has,
    or the CPU touches the same pages, they also move back, and the kernel waits for them again.

How it decides
    It takes the time in which pages move to the GPU in pieces of less than 2 MB (larger ones move because a call asks
    for it), or in which the driver handles page faults of the GPU (nsys profile --cuda-um-gpu-page-faults=true), and
    up to 50 us from one of these to the next. Kernels of which that is a quarter or more wait for pages, and this
    time is the ceiling. It is told as no other fault of theirs, such as a launch of few blocks.

What to try
    Prefetch the data before the kernel (cudaMemPrefetchAsync), or allocate it on the GPU and copy it in one piece.

When it is wrong
    The data must reach the GPU once, so the time of one large copy remains. A kernel that computes a lot for each page
    may compute meanwhile.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        waits = {device: _waiting(analysis, device) for device in analysis.active_devices}
        device = max(waits, key=lambda each: length(waits[each]), default=-1)
        waiting = waits.get(device, EMPTY)
        if not length(waiting) or share(analysis, length(waiting)) < analysis.thresholds[MIN_SHARE]:
            return
        trace, found_in, pages = (
            analysis.trace,
            extent(analysis, waiting, device),
            pages_in_kernels(analysis, device),
        )
        longest = pages.kernels[durations(trace, pages.kernels).argmax()]
        name = shortened(kernel_name(trace.name(int(longest))), 90)
        away = mostly_leave(analysis, pages.moves)
        yield self.finding(
            analysis,
            category=Category.COPY_D2H if away else Category.COPY_H2D,
            headline=Headline("Kernels wait for pages of unified memory", found_in.share(length(waiting))),
            account=_account(analysis, pages, name)
            + f" Kernels like it wait for {found_in.part(length(waiting))}."
            + (_BACK if away else ""),
            remedy=PREFETCH_PAGES.and_then(*_KEEP if away else ()),
            ceiling_ns=length(waiting),
            culprit=Culprit(CulpritKind.KERNEL, name),
            device=device,
            evidence=event_evidence(trace, pages.kernels),
            intervals=pairs(waiting),
            unknown=("How long the kernel takes once its data is there: record it again after prefetching.",),
            confidence="medium",
        )


_BACK = (
    " Most of these moves take pages from the GPU: it has too little memory for all that is in use, or the CPU touches "
    "the same pages."
)
_KEEP: tuple[Words, ...] = (
    "Let no code of the CPU touch this memory while the kernel runs, and work on parts that fit into the GPU's memory.",
)


def _waiting(analysis: Analysis, device: int) -> Intervals:
    return clip(waiting_for_pages(analysis, device), *analysis.window)


def _account(analysis: Analysis, pages: KernelsOnPages, name: str) -> str:
    """What the longest of the kernels waits for."""
    trace = analysis.trace
    table, took = trace.events, durations(trace, pages.kernels)
    longest = pages.kernels[took.argmax()]
    start, end = int(table.start[longest]), int(table.end[longest])
    moves, faults = (
        pages.inside(analysis, pages.moves, start, end),
        pages.inside(analysis, pages.faults, start, end),
    )
    amount = int(np.asarray(trace.attribute(Attribute.BYTES, moves)).sum())
    part = length(clip(pages.waiting, start, end)) / max(end - start, 1)
    pieces = how_many(len(moves), "piece") + (f" of {size(amount)} in all" if amount else "")
    found = []
    if len(moves):
        found.append(f"{pieces} {'moves' if len(moves) == 1 else 'move'}")
    if len(faults):
        found.append(f"the driver handles {how_many(len(faults), 'group')} of page faults")
    return (
        f"{name} runs for {duration(end - start)}, and for {percent(part)} of that time it waits for pages that it "
        f"touches: {listed(found)}, instead of one copy before it."
    )
