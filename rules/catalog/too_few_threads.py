"""Long kernels are launched with far fewer threads than the GPU can run at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import Attribute, EventKind
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.arithmetic.intervals import clip, length, pairs, subtract, union
from rules.analysis.gpu.inside_window import busiest_device, operations
from rules.analysis.gpu.launch_sizes import SCHEDULERS, lanes_of, multiprocessors_of, nearly_empty
from rules.analysis.names.host_language import is_python
from rules.findings.base import Category, Finding, Rule, remedy, rule
from rules.losses.lost_time import event_evidence
from rules.remedies.engines import spreading_advice, spreading_code
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import of_every_step, part_of_step, share, shortened
from rules.wording.words import Words, for_python, ours

_CODE = """int threads = 256;
int blocks = (count + threads - 1) / threads;      // as many blocks as there is work for
update<<<blocks, threads>>>(data, count);

__global__ void update(float* data, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        data[i] = ...;
}"""

_PYTHON_CODE = """states = torch.stack(states)            # one call for all, not one after the other
update(states)

@triton.jit
def update_kernel(data, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ...

update_kernel[(triton.cdiv(count, 1024),)](data, count, BLOCK=1024)   # many programs, each with a block of work"""


@rule
class TooFewThreads(Rule):
    """Kernels whose grid and blocks leave most of the GPU empty."""

    id = "too-few-threads"
    category = Category.SMALL_GRID
    explanation = """
What it found
    Long-running kernels are launched with a few blocks, or with blocks of a few threads.

Why it costs time
    A block runs on one SM, so fewer blocks than SMs leave the others idle. The lanes of a warp work together, 32 on
    NVIDIA's GPUs and 64 on AMD's: a block of 4 threads takes a whole warp and uses 4 lanes of it.

How it decides
    By the grid and the block of each kernel of at least 20 us (100 us in Python programs) during which no other
    kernel runs: the share of the SMs that its blocks reach, times the share of a warp that a block fills, times the
    share of an SM's four schedulers that have a warp. It is reported if this is less than half of the GPU, or if a
    block fills no more than half of a warp. The ceiling is the time of these kernels, less what it would be with the
    whole GPU.

What to try
    Blocks of 128 to 256 threads, and as many blocks as there is work for; loops over elements belong in the grid.
    Combine inherently small work with similar work in one launch, or run it in parallel on other streams.

When it is wrong
    If one thread after another must do the work. Collectives are left out, and in Python programs also matrix
    products and convolutions, which libraries divide by the shapes of their tensors.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        found = {device: nearly_empty(analysis, device) for device in analysis.active_devices}
        worst = busiest_device(analysis, {device: events for device, (events, _) in found.items()})
        if worst is None:
            return
        events, used = found[worst]
        kernels = operations(analysis, worst, EventKind.KERNEL)
        others = np.setdiff1d(kernels, events)
        table = trace.events
        alone = clip(subtract(union(*table.spans(events)), union(*table.spans(others))), *analysis.window)
        took = durations(trace, events)
        ceiling = int(length(alone) * (1 - float(np.average(used, weights=took))))
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        longest = int(events[np.argmax(took)])
        name = shortened(kernel_name(trace.name(longest)), 90)
        yield self.finding(
            analysis,
            headline=Headline(
                "Kernels leave most of the GPU empty", of_every_step(analysis, share(analysis, length(alone)))
            ),
            account=f"{name} runs for {duration(int(took.max()))} with {_launched(analysis, longest)}: "
            + _reached(analysis, worst, longest)
            + f" Kernels like it run alone for {part_of_step(analysis, length(alone))}.",
            remedy=remedy(
                *map(for_python, _OF_PYTHON),
                native=spreading_advice(trace)
                or (
                    "Launch blocks of 128 to 256 threads, and as many blocks as there is work for: one thread per "
                    "element does at once what one thread does in a loop.",
                    "Put independent small problems into one launch, or on several streams.",
                ),
                code=_PYTHON_CODE if is_python(trace) else spreading_code(trace) or _CODE,
            ),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.KERNEL, shortened(name, 120)),
            device=worst,
            evidence=event_evidence(trace, events),
            intervals=pairs(alone),
            unknown=(
                "Whether its iterations depend on each other: if so, it needs another algorithm first.",
            ),
            confidence="medium",
        )


_OF_PYTHON: tuple[Words, ...] = (
    "Give it more work at once: a larger batch, or several small problems in one call.",
    "If the kernel is your own (Triton, Numba, CuPy, an extension), launch more programs, and blocks of at least "
    "128 threads.",
)


def _launched(analysis: Analysis, kernel: int) -> str:
    trace, event = analysis.trace, np.array([kernel])
    blocks = int(trace.attribute(Attribute.GRID, event)[0])
    threads = int(trace.attribute(Attribute.BLOCK, event)[0])
    return f"{blocks:,} block{'s' if blocks != 1 else ''} of {threads:,} thread{'s' if threads != 1 else ''}"


def _reached(analysis: Analysis, device: int, kernel: int) -> Words:
    """How much of the GPU a kernel's blocks can use, as a sentence."""
    trace, event = analysis.trace, np.array([kernel])
    blocks = int(trace.attribute(Attribute.GRID, event)[0])
    threads, lanes = int(trace.attribute(Attribute.BLOCK, event)[0]), lanes_of(analysis.trace)
    count = trace.devices[device].sm_count
    parts: list[Words] = []
    if blocks < multiprocessors_of(analysis, device):
        parts.append(ours(f"{blocks} of {count} $SMs work") if count else ours("few of its $SMs work"))
    if blocks < multiprocessors_of(analysis, device) and lanes <= threads < SCHEDULERS * lanes:
        warps = -(-threads // lanes)
        parts.append(ours(f"{warps} of the {SCHEDULERS} schedulers of each have a $warp"))
    if threads < lanes:
        parts.append(ours(f"{threads} of the {lanes} lanes of each $warp are used"))
    text: Words = ""
    for number, part in enumerate(parts):
        text = text + (" and " if number else "") + part
    return text + "."
