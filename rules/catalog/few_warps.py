"""Kernels of a program's own whose launch gives every SM work, but so few warps that nothing hides their waits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import F64, I64, Attribute, EventKind
from parsers.model.arrays import without
from parsers.model.events import of_kinds
from parsers.model.names.kernels import kernel_name
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations, length, pairs, subtract, union
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.analysis.gpu.held_up import held_up_by_pages
from rules.analysis.gpu.inside_window import busiest_device, operations
from rules.analysis.gpu.launch_sizes import has_own_name, multiprocessors_of, nearly_empty, warps_held
from rules.analysis.gpu.unified_memory import without_pages
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import is_python
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.kernels.gpu_peaks import DOUBLE, has_few_units
from rules.losses.lost_time import event_evidence
from rules.terms import MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import Headline, of_every_step, ours, part_of_step, share, shortened

LONG_NS = 100_000
MAX_HELD = 0.125  # of the warps that an SM holds: two or fewer for each of its four schedulers
_DIVIDED_BY_SHAPE = (
    Family.GEMM,
    Family.CONVOLUTION,
    Family.COLLECTIVE,
)  # fast with few warps, or not meant to fill


@rule
class FewWarps(Rule):
    id = "few-warps"
    category = Category.SMALL_GRID
    needs = frozenset({Need.GPU_EVENTS})
    explanation = """
What it found
    Long-running kernels are launched with so few blocks and threads that each scheduler of an SM has one warp, or two.

Why it costs time
    A warp that waits for memory, or for the result of its own last instruction, is hidden by others that compute
    meanwhile. With one warp a scheduler does nothing at all while it waits, hundreds of cycles for each load.

How it decides
    By the grid and the block of each kernel of at least 100 us in programs that are not Python's, on NVIDIA's GPUs,
    where the blocks reach most of the SMs: warps of an SM, at most 32 blocks, divided by the warps that it holds. An
    eighth or less is reported. Registers and shared memory, which may allow fewer, are left out, and so are kernels
    with names of libraries, matrix products and convolutions, and kernels that take numbers of type double on a GPU
    with few units for them. The ceiling is the time of these kernels while no other runs, times the empty part.

What to try
    More blocks, and blocks of 128 to 256 threads: one thread for each element, instead of threads that walk over many.

When it is wrong
    A kernel that gives each thread much independent work (unrolled, with many accumulators) is fast with few warps.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        if is_python(trace) or is_amd(trace):
            return
        found = {device: _thinly_filled(analysis, device) for device in analysis.active_devices}
        worst = busiest_device(analysis, {device: events for device, (events, _) in found.items()})
        if worst is None:
            return
        events, held = found[worst]
        table = trace.events
        others = without(operations(analysis, worst, EventKind.KERNEL), events)
        alone = subtract(union(*table.spans(events)), union(*table.spans(others)))
        alone = without_pages(analysis, worst, alone)
        took = durations(trace, events)
        ceiling = int(length(alone) * (1 - float(np.average(held, weights=took))))
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        at = int(took.argmax())
        name = shortened(kernel_name(trace.name(int(events[at]))), 90)
        blocks, threads = (
            int(trace.attribute(attribute, events[at : at + 1])[0])
            for attribute in (Attribute.GRID, Attribute.BLOCK)
        )
        sms = multiprocessors_of(analysis, worst)
        yield self.finding(
            analysis,
            headline=Headline(
                "too few warps", of_every_step(analysis, share(analysis, length(alone))), subject=name
            ),
            account=ours(
                f"{name} runs for {duration(int(took.max()))} with {blocks:,} blocks of {threads:,} threads on {sms} "
                f"$SMs: at most {percent(float(held[at]))} of the warps that an SM holds. While these few wait, "
                "nothing else hides it."
            )
            + f" Kernels like it run alone for {part_of_step(analysis, length(alone))}.",
            remedy=remedy(
                "Launch more blocks, of 128 to 256 threads: one thread for each element instead of threads that walk "
                "over many, or several threads for one element.",
                ours(
                    "Look at it with $NsightCompute: what its warps wait for, and whether loads are coalesced."
                ),
                code="int blocks = (count + 255) / 256;      // as many threads as there are elements\n"
                "update<<<blocks, 256>>>(data, count);",
            ),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.KERNEL, shortened(name, 120)),
            device=worst,
            evidence=event_evidence(trace, events),
            intervals=pairs(alone),
            unknown=("Whether its work can be divided further.",),
            confidence="medium",
        )


def _thinly_filled(analysis: Analysis, device: int) -> tuple[I64, F64]:
    """The long kernels of a device that hold few of its warps, and the part (0 to 1) that each holds."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    kernels = kernels[durations(trace, kernels) >= LONG_NS]
    kernels = without(kernels, held_up_by_pages(analysis, device))
    kernels = without(kernels, nearly_empty(analysis, device)[0])  # which have a rule of their own
    kernels = kernels[has_own_name(trace, kernels)]
    kernels = kernels[~of_kinds(analysis.family_of_string[trace.events.name[kernels]], *_DIVIDED_BY_SHAPE)]
    if has_few_units(trace.devices[device].compute_capability):
        kernels = kernels[~named(trace, kernels, DOUBLE.search)]  # some warps keep few units busy
    blocks, threads = trace.attribute(Attribute.GRID, kernels), trace.attribute(Attribute.BLOCK, kernels)
    held = warps_held(analysis, device, blocks, threads)
    few = (blocks > 0) & (threads > 0) & (held <= MAX_HELD)
    return kernels[few], held[few]
