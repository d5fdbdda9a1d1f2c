"""Copies from the GPU to the host that nothing else on the GPU overlaps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from parsers.model import CopyKind
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import pairs
from rules.analysis.gpu.copies import Copies, worst_copies
from rules.findings.base import Category, Finding, Rule, rule
from rules.losses.concentration import Extent, extent
from rules.losses.host_link import (
    PAGES_FROM_GPU,
    copies_sentence,
    is_slow,
    link_sentence,
    link_use,
)
from rules.losses.lost_time import event_evidence
from rules.remedies.copies import PINNED_AT_FULL_SPEED, less_from_gpu
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import share


@rule
class CopiesFromGpu(Rule):
    """Device-to-host copies on the critical path."""

    id: ClassVar[str] = "copies-from-gpu"
    category: ClassVar[Category] = Category.COPY_D2H
    explanation: ClassVar[str] = """
What it found
    Results are copied from the GPU to host memory while the GPU computes nothing.

Why it costs time
    tensor.cpu(), .numpy() and .tolist() wait until the GPU has finished, copy, and only then let the program
    continue. Meanwhile the GPU idles or only copies.

How it decides
    It takes the union of all device-to-host copies and subtracts every moment in which a kernel or a collective ran,
    and copies to the GPU where those are exposed for longer. The rest is the ceiling. It compares the bandwidth of
    copies above 1 MB with the link between host and GPU: pinned memory that reaches less than half of it is called
    slow.

What to try
    Return less: the arg-max, the top-k or a score instead of whole outputs, in a smaller data type. Copy into pinned
    memory with non_blocking=True on a separate stream, and start the next request meanwhile.

When it is wrong
    When the copies are needed and there is nothing else to compute.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        worst = worst_copies(analysis, CopyKind.D2H)
        if worst is None or share(analysis, worst.exposed_ns) < analysis.thresholds[MIN_SHARE]:
            return
        pageable, use = worst.from_pageable, None if worst.are_migrations else link_use(trace, worst)
        where = (
            Culprit(CulpritKind.REGION, worst.regions[0])
            if worst.regions
            else Culprit(CulpritKind.COPY, trace.name(int(worst.events[0])))
        )
        found_in = extent(analysis, worst.exposed, worst.device)
        yield self.finding(
            analysis,
            headline=Headline(
                PAGES_FROM_GPU
                if worst.are_migrations and not worst.are_prefetched
                else "Copies from the GPU are not overlapped",
                found_in.share(worst.exposed_ns),
            ),
            account=_explanation(worst, found_in) + link_sentence(use, pageable),
            remedy=less_from_gpu(trace, worst).and_then(
                *(PINNED_AT_FULL_SPEED if is_slow(use, pageable) else ())
            ),
            ceiling_ns=worst.exposed_ns,
            culprit=where,
            device=worst.device,
            evidence=event_evidence(trace, worst.events),
            intervals=pairs(worst.exposed),
            unknown=("Which of the copied values are used later.",),
        )


def _explanation(copies: Copies, found_in: Extent) -> str:
    text = copies_sentence(copies, found_in, "from GPU to host")
    if copies.from_pageable:
        text += (
            " They go to pageable memory, so the CPU waits for each and the driver copies everything twice."
        )
    return text
