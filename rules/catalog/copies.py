"""Copies between the host and the GPU that nothing else on the GPU overlaps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import Attribute, CopyKind, Trace
from parsers.model.late import dataclass
from parsers.model.units import percent, rate, size
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, durations, length, pairs, union
from rules.analysis.gpu.copies import Copies, worst_copies
from rules.analysis.idle.attribution import IN_PIECES
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category, Finding, Remedy, Rule, rule
from rules.kernels.gpu_peaks import peaks_of
from rules.losses.lost_time import Extent, IdleTime, event_evidence, extent
from rules.remedies.copies import PINNED_AT_FULL_SPEED, less_from_gpu, less_to_gpu
from rules.terms import MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import Headline, Words, for_native, ours, part_of_step, share, without_stacks

LARGE_BYTES = 1_000_000  # a smaller copy takes about as long to start as to travel
VERY_SLOW_SHARE = 0.28  # of the link: a third of what pinned copies reach
SLOW_LINK_SHARE = 0.5  # large pinned copies reach 84 to 88 % of PCIe 5 on an H200: half of the link is odd


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What the large copies of one direction reach, bytes/s, and the link's own rate."""

    link: str
    bandwidth: float
    peak: float

    @property
    def share(self) -> float:
        return self.bandwidth / self.peak

    @property
    def slow(self) -> bool:
        """Slower than the link and the copying itself explain."""
        return self.share < SLOW_LINK_SHARE


def link_use(trace: Trace, copies: Copies) -> LinkUse | None:
    """None without large copies of known size, or where the link is not known: copies that exceed it took another."""
    peaks = peaks_of(trace.devices[copies.device].name)
    sizes = trace.attribute(Attribute.BYTES, copies.events)
    large = sizes >= LARGE_BYTES
    time = int(durations(trace, copies.events[large]).sum())
    if peaks is None or not peaks.link_bandwidth or not time:
        return None
    use = LinkUse(peaks.link, int(sizes[large].sum()) / time * 1e9, peaks.link_bandwidth)
    return use if use.share <= 1.0 else None


def is_slow(use: LinkUse | None, pageable: bool) -> bool:
    """Whether copies are slow although their memory is pinned."""
    return use is not None and not pageable and use.slow


def copies_sentence(copies: Copies, found_in: Extent, way: str) -> str:
    """How many copies go a ``way`` such as "from host to GPU", how fast, what they cost, and who asks for them."""
    text = found_in.counted(len(copies.events), f"copy {way}", f"copies {way}")
    if copies.bytes:
        text += f", {size(found_in.each(copies.bytes))} in all at {rate(copies.bandwidth)}"
    runs = "no kernel" if copies.both_ways_ns else "nothing else"
    text += f": {runs} runs on the GPU for {found_in.part(copies.exposed_ns)}"
    if copies.both_ways_ns:
        text += f", and for {found_in.part(copies.both_ways_ns)} data is also copied the other way"
    text += "."
    return text + (f" Requested by: {copies.regions[0]}." if copies.regions else "")


def link_sentence(use: LinkUse | None, pageable: bool) -> str:
    """What the large copies reach of the link, where that is told, as a sentence."""
    if use is None:
        return ""
    part = f"{percent(use.share)} of the {rate(use.peak)} that the GPU's link ({use.link}) can carry"
    slow = ": slow for pinned memory" if use.slow and not pageable else ""
    return f" Copies above 1 MB reach {part}{slow}."


PAGES_TO_GPU = "Pages of unified memory move to the GPU one by one"
PAGES_FROM_GPU = "Pages of unified memory move from the GPU one by one"


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
            account=self.account(worst, use, found_in)
            + link_sentence(use, pageable)
            + _between_pieces(analysis, worst),
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


def _between_pieces(analysis: Analysis, copies: Copies) -> str:
    """How long the GPU idles between the pieces in which a call moves unified memory; empty where that is little."""
    waiting = IdleTime(analysis, Cause.DEPENDENCY, (IN_PIECES,))
    if not copies.are_migrations or waiting.device != copies.device:
        return ""
    idle, rows = analysis.idle, waiting.rows
    mine = rows[np.isin(idle.next_operation[rows], copies.events)]
    paused = length(clip(union(idle.start[mine], idle.end[mine]), *analysis.window))
    if share(analysis, paused) < analysis.thresholds[MIN_SHARE]:
        return ""
    return f" The memory moves in pieces, and between them the GPU idles for another {part_of_step(analysis, paused)}."


@rule
class CopiesFromGpu(ExposedCopies):
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


@rule
class CopiesToGpu(ExposedCopies):
    id = "copies-to-gpu"
    category = Category.COPY_H2D
    direction = CopyKind.H2D
    title = "Copies to the GPU are not overlapped"
    title_of_pages = PAGES_TO_GPU
    explanation = """
What it found
    Data is copied from host memory to the GPU while the GPU computes nothing.

Why it costs time
    Copy engines can run alongside the compute units. A copy that runs alone makes the step longer by its whole
    duration. From pageable memory (ordinary allocations) the driver must first copy everything into a pinned buffer,
    which is slower, often several times, and cannot run in the background.

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

    def account(self, copies: Copies, use: LinkUse | None, found_in: Extent) -> str:
        text = copies_sentence(copies, found_in, "from host to GPU")
        if copies.from_pageable:
            part = copies.pageable_ns / max(copies.time_ns, 1)
            text += f" {percent(part)} of that time copies from pageable memory, which blocks the CPU"
            text += (
                f" and is {_how_much(use)} slower than from pinned memory."
                if use is None or use.slow
                else "."
            )
        overlapped = 1 - copies.exposed_ns / max(copies.time_ns, 1)
        return f"{text} Other work covers {percent(max(overlapped, 0.0))} of the copying."

    def less(self, trace: Trace, copies: Copies, found_in: Extent) -> Remedy:
        return less_to_gpu(trace, copies, bytes_a_step=copies.bytes / found_in.sharing)

    def culprit(self, trace: Trace, copies: Copies) -> Culprit:
        name = trace.name(int(copies.events[durations(trace, copies.events).argmax()]))
        note = "pageable memory" if copies.from_pageable and "pageable" not in name.lower() else ""
        region = Culprit(CulpritKind.REGION, copies.regions[0]) if copies.regions else None
        return Culprit(CulpritKind.COPY, name, region, note)

    def unknown(self, trace: Trace, copies: Copies) -> tuple[Words, ...]:
        which = without_stacks(
            trace, "Which line copies: record with stacks (with_stack=True) or add regions."
        )
        return (
            for_native(ours("Which line copies: record backtraces ($RecordBacktraces).")),
            "" if copies.regions else which,
        )


def _how_much(use: LinkUse | None) -> str:
    """By how much copies from pageable memory fall short, where the link tells."""
    return "usually" if use is None else "several times" if use.share < VERY_SLOW_SHARE else "clearly"
