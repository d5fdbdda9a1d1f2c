"""Copies from the host to the GPU that nothing else on the GPU overlaps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from parsers.model import CopyKind, Trace
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.arithmetic.intervals import pairs
from rules.analysis.gpu.copies import Copies, worst_copies
from rules.findings.base import Category, Finding, Rule, rule
from rules.losses.concentration import Extent, extent
from rules.losses.host_link import (
    PAGES_TO_GPU,
    LinkUse,
    copies_sentence,
    is_slow,
    link_sentence,
    link_use,
)
from rules.losses.lost_time import event_evidence
from rules.remedies.copies import PINNED_AT_FULL_SPEED, less_to_gpu
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import share, without_stacks
from rules.wording.words import for_native, ours


@rule
class CopiesToGpu(Rule):
    """Host-to-device copies on the critical path."""

    id: ClassVar[str] = "copies-to-gpu"
    category: ClassVar[Category] = Category.COPY_H2D
    explanation: ClassVar[str] = """
What it found
    Data is copied from host memory to the GPU while the GPU computes nothing.

Why it costs time
    Copy engines can run alongside the compute units. A copy that runs alone makes the step longer by its whole
    duration. From pageable memory (ordinary allocations) the driver must first copy everything into a pinned buffer,
    which is several times slower and cannot run in the background.

How it decides
    It takes the union of all host-to-device copies and subtracts every moment in which a kernel or a collective ran,
    and copies from the GPU where those are exposed for longer. The rest is the ceiling. It reports the kind of
    memory, the size and the bandwidth, and compares the bandwidth of copies above 1 MB with the link between host and
    GPU: pinned memory that reaches less than half of it is called slow.

What to try
    Pin the memory (pin_memory=True in the DataLoader, or tensor.pin_memory()), copy with non_blocking=True on a
    separate stream while the previous step computes, and send less: smaller data types, decoding and augmentation on
    the GPU.

When it is wrong
    When the copied data is needed at once and there is nothing else to compute, overlap is impossible and only the
    bandwidth can improve.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        worst = worst_copies(analysis, CopyKind.H2D)
        if worst is None or share(analysis, worst.exposed_ns) < analysis.thresholds[MIN_SHARE]:
            return
        pageable, use = worst.from_pageable, None if worst.are_migrations else link_use(trace, worst)
        found_in = extent(analysis, worst.exposed, worst.device)
        yield self.finding(
            analysis,
            headline=Headline(
                PAGES_TO_GPU
                if worst.are_migrations and not worst.are_prefetched
                else "Copies to the GPU are not overlapped",
                found_in.share(worst.exposed_ns),
            ),
            account=_explanation(worst, use, found_in) + link_sentence(use, pageable),
            remedy=less_to_gpu(trace, worst, bytes_a_step=worst.bytes / found_in.sharing).and_then(
                *(PINNED_AT_FULL_SPEED if is_slow(use, pageable) else ())
            ),
            ceiling_ns=worst.exposed_ns,
            culprit=_culprit(trace, worst),
            device=worst.device,
            evidence=event_evidence(trace, worst.events),
            intervals=pairs(worst.exposed),
            unknown=(
                for_native(ours("Which line copies: record backtraces ($RecordBacktraces).")),
                ""
                if worst.regions
                else without_stacks(
                    trace, "Which line copies: record with stacks (with_stack=True) or add regions."
                ),
            ),
        )


def _culprit(trace: Trace, copies: Copies) -> Culprit:
    longest = int(copies.events[durations(trace, copies.events).argmax()])
    name = trace.name(longest)
    note = "pageable memory" if copies.from_pageable and "pageable" not in name.lower() else ""
    region = Culprit(CulpritKind.REGION, copies.regions[0]) if copies.regions else None
    return Culprit(CulpritKind.COPY, name, region, note)


def _explanation(copies: Copies, use: LinkUse | None, found_in: Extent) -> str:
    text = copies_sentence(copies, found_in, "from host to GPU")
    if copies.from_pageable:
        part = copies.pageable_ns / max(copies.time_ns, 1)
        slower = "usually" if use is None else "several times" if use.slow else ""
        text += f" {percent(part)} of that time copies from pageable memory, which blocks the CPU"
        text += f" and is {slower} slower than from pinned memory." if slower else "."
    overlapped = 1 - copies.exposed_ns / max(copies.time_ns, 1)
    return f"{text} Other work covers {percent(max(overlapped, 0.0))} of the copying."
