"""Copies from the GPU to the host that nothing else on the GPU overlaps."""

from __future__ import annotations

from parsers.model import CopyKind, Trace
from rules.analysis.gpu.copies import Copies
from rules.findings.base import Category, Remedy, rule
from rules.losses.concentration import Extent
from rules.losses.exposed_copies import ExposedCopies
from rules.losses.host_link import PAGES_FROM_GPU, LinkUse, copies_sentence
from rules.remedies.copies import less_from_gpu
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.words import Words


@rule
class CopiesFromGpu(ExposedCopies):
    """Device-to-host copies on the critical path."""

    id = "copies-from-gpu"
    category = Category.COPY_D2H
    direction = CopyKind.D2H
    title = "Copies from the GPU are not overlapped"
    title_of_pages = PAGES_FROM_GPU
    explanation = """
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

    def account(self, copies: Copies, use: LinkUse | None, found_in: Extent) -> str:
        text = copies_sentence(copies, found_in, "from GPU to host")
        if copies.from_pageable:
            text += " They go to pageable memory, so the CPU waits for each and the driver copies everything twice."
        return text

    def less(self, trace: Trace, copies: Copies, found_in: Extent) -> Remedy:
        return less_from_gpu(trace, copies)

    def culprit(self, trace: Trace, copies: Copies) -> Culprit:
        if copies.regions:
            return Culprit(CulpritKind.REGION, copies.regions[0])
        return Culprit(CulpritKind.COPY, trace.name(int(copies.events[0])))

    def unknown(self, trace: Trace, copies: Copies) -> tuple[Words, ...]:
        return ("Which of the copied values are used later.",)
