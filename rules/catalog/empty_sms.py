"""Launches that leave much of the GPU empty: few threads, or few warps on each SM."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import F64, I64, Attribute, EventKind
from parsers.model.arrays import without
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations, length, pairs, subtract, time_by_name, union
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.analysis.gpu.inside_window import busiest_device, operations
from rules.analysis.gpu.launch_sizes import (
    SCHEDULERS,
    has_own_name,
    lanes_of,
    launched_alone,
    multiprocessors_of,
    nearly_empty,
    warps_held,
)
from rules.analysis.gpu.unified_memory import without_pages
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import is_python
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import event_evidence
from rules.remedies.engines import spreading_advice, spreading_code
from rules.terms import MAJORITY, MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import (
    Headline,
    Words,
    for_python,
    listed,
    of_every_step,
    ours,
    part_of_step,
    share,
    shortened,
)

LONG_NS = 20_000  # a shorter kernel takes as long as it takes to start and to end
MAX_NAMED, MAX_NAME = 2, 40

_OWN_CODE = """# one program a row, and as many warps as the row is wide
rms_kernel[(rows,)](x, w, y, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
# not: BLOCK=32, num_warps=1, which walks along each row in short steps"""


@rule
class OwnKernels(Rule):
    id = "own-kernels"
    category = Category.LOW_OCCUPANCY
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS, Need.CPU_EVENTS})
    explanation = """
What it found
    Kernels of the program's own (Triton, CUDA C++) take a good part of the time, and their launches leave at least half
    of the places for warps on each SM empty.

Why it costs time
    While a warp waits for memory, others compute. With few warps on an SM, nobody does, and too few loads are on their
    way to use the memory's bandwidth. An SM holds 32 blocks at most: blocks of one warp fill half of it.

How it decides
    Kernels of a Python program on NVIDIA's GPUs that no operator launched and that have no name of a library, of at
    least 20 us each. By grid and block: no more than 32 blocks on an SM, times the warps of each, divided by the warps
    that an SM holds (64 on data centre GPUs). Registers and shared memory, which may allow less, are left out. The
    ceiling is the time of these kernels, times the empty part.

What to try
    Wider blocks, with more warps, and more of them. Nsight Compute shows what each kernel waits for, and whether its
    loads and stores are coalesced: neighbouring threads at neighbouring addresses.

When it is wrong
    Kernels with much work in each thread, such as matrix products, are fast with few warps. A kernel that is limited by
    the memory's bandwidth already gains nothing.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        if not is_python(trace) or is_amd(trace) or EventKind.CPU_OP not in trace.kinds:
            return
        found = {device: _half_empty(analysis, device) for device in analysis.active_devices}
        worst = busiest_device(analysis, {device: events for device, (events, _) in found.items()})
        if worst is None:
            return
        events, used = found[worst]
        whole = without_pages(analysis, worst, union(*trace.events.spans(events)))
        took = durations(trace, events)
        ceiling = int(length(whole) * (1.0 - float(np.average(used, weights=np.maximum(took, 1)))))
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        time = time_by_name(trace, events)
        order = np.argsort(-time, kind="stable")[: np.count_nonzero(time)].tolist()
        names = [shortened(kernel_name(trace.strings[each]), MAX_NAME) for each in order]
        told = [
            _launched_by_name(analysis, events, used, each, name)
            for each, name in zip(order, names, strict=True)
        ]
        more = len(names) > MAX_NAMED
        yield self.finding(
            analysis,
            headline=Headline(
                "too few warps",
                of_every_step(analysis, share(analysis, length(whole))),
                subject=listed([*names[:MAX_NAMED], *(("others",) if more else ())]),
            ),
            account=(
                f"Kernels of the program's own run for {part_of_step(analysis, length(whole))}. "
                f"{' '.join(told[: MAX_NAMED + 1])}"
            ),
            remedy=remedy(
                ours(
                    "Look at them with $NsightCompute: what they wait for, and whether loads are coalesced."
                ),
                for_python(
                    "Launch wider blocks with more warps: num_warps=4 or 8 in Triton, 128 to 256 threads in CUDA C++."
                ),
                "Let neighbouring threads read neighbouring addresses: one block for a row, not for a column.",
                code=for_python(_OWN_CODE),
            ),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.KERNEL, names[0]),
            device=worst,
            evidence=event_evidence(trace, events),
            intervals=pairs(whole),
            unknown=(ours("What limits these kernels: this requires $NsightComputes counters."),),
            confidence="medium",
        )


def _half_empty(analysis: Analysis, device: int) -> tuple[I64, F64]:
    """The long kernels that no operator launched and no library has, with few warps, and the part (0 to 1) of them."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    kernels = kernels[durations(trace, kernels) >= LONG_NS]
    kernels = without(kernels, nearly_empty(analysis, device)[0])  # which have a rule of their own
    kernels = kernels[has_own_name(trace, kernels)]
    kernels = kernels[analysis.family_of_string[trace.events.name[kernels]] != Family.COLLECTIVE]
    blocks, threads = trace.attribute(Attribute.GRID, kernels), trace.attribute(Attribute.BLOCK, kernels)
    used = warps_held(analysis, device, blocks, threads)
    few = (blocks > 0) & (threads > 0) & (1.0 - used >= MAJORITY)
    kernels, used = kernels[few], used[few]
    own = launched_alone(analysis, kernels)
    return kernels[own], used[own]


def _launched_by_name(analysis: Analysis, events: I64, used: F64, name: int, said: str) -> str:
    trace = analysis.trace
    mine = np.flatnonzero(trace.events.name[events] == name)
    longest = mine[int(durations(trace, events[mine]).argmax())]
    event = events[longest : longest + 1]
    blocks = int(trace.attribute(Attribute.GRID, event)[0])
    threads = int(trace.attribute(Attribute.BLOCK, event)[0])
    return f"{said}: {blocks:,} blocks of {threads:,} threads, {percent(float(used[longest]))} of the warps at most."


_THREADS_CODE = """int threads = 256;
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
    id = "too-few-threads"
    category = Category.SMALL_GRID
    explanation = """
What it found
    Long-running kernels are launched with a few blocks, or with blocks of a few threads.

Why it costs time
    A block runs on one SM, so fewer blocks than SMs leave the others idle. The lanes of a warp work together, 32 on
    NVIDIA's GPUs and AMD's Radeon, 64 on AMD's Instinct: a block of 4 threads takes a whole warp and uses 4 of them.

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
    products and convolutions, which libraries divide by the shapes of their tensors; so are launches that take ten
    times as long as the kernel's others while a page of unified memory moves.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        found = {device: nearly_empty(analysis, device) for device in analysis.active_devices}
        worst = busiest_device(analysis, {device: events for device, (events, _) in found.items()})
        if worst is None:
            return
        events, used = found[worst]
        kernels = operations(analysis, worst, EventKind.KERNEL)
        others = without(kernels, events)
        table = trace.events
        alone = subtract(union(*table.spans(events)), union(*table.spans(others)))
        alone = without_pages(analysis, worst, alone)
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
                code=_PYTHON_CODE if is_python(trace) else spreading_code(trace) or _THREADS_CODE,
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
