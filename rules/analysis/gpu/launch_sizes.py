"""How much of a GPU a kernel can use by its launch alone, and kernels that tell: a program's own, and the longest."""

from __future__ import annotations

import re

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, Trace, derived, derived_by
from parsers.model.arrays import without
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.kernels import kernel_name
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations, time_by_name
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.analysis.gpu.held_up import held_up_by_pages
from rules.analysis.gpu.inside_window import operations
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import is_python
from rules.terms import MAJORITY

# a shorter kernel takes as long as it takes to start and to end, however many threads it has; a library's need not be
# called with more
LONG_NS, LONG_OF_A_LIBRARY_NS = 20_000, 100_000
SCHEDULERS = 4  # of a multiprocessor or compute unit, each with warps of its own
MIN_SMS = 16  # of a GPU whose size is not recorded
MAX_BLOCKS = 32  # on an SM at once: NVIDIA's CUDA programming guide, of data centre GPUs since Volta
# on an SM at once; 64 on all others
MAX_WARPS = {(7, 5): 32, (8, 6): 48, (8, 7): 48, (8, 9): 48, (12, 0): 48}
# what libraries divide by the shapes of tensors, of which other rules speak; a native program's own are like any kernel
_DIVIDED_BY_SHAPE = (Family.GEMM, Family.CONVOLUTION)
_OF_64 = regex(r"instinct|\bMI\d{1,3}|\bgfx9|vega|radeon vii", re.IGNORECASE)  # CDNA and GCN; RDNA's have 32


def multiprocessors_of(analysis: Analysis, device: int) -> int:
    """The SMs or compute units of a device; few where that is not recorded."""
    return analysis.trace.devices[device].sm_count or MIN_SMS


def lanes_of(trace: Trace) -> int:
    """Threads that work together: 64 on AMD's Instinct, by the GPU's name; 32 on others, and where none is stated."""
    return 64 if is_amd(trace) and any(_OF_64.search(device.name) for device in trace.devices) else 32


@derived_by
def nearly_empty(analysis: Analysis, device: int) -> tuple[I64, F64]:
    """The long kernels of a device whose launch uses little of it, and the part (0 to 1) that each uses."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    of_libraries = is_python(trace)
    others = (Family.COLLECTIVE, *(_DIVIDED_BY_SHAPE if of_libraries else ()))
    family = analysis.family_of_string[trace.events.name[kernels]]
    long = LONG_OF_A_LIBRARY_NS if of_libraries else LONG_NS
    kernels = kernels[(durations(trace, kernels) >= long) & ~of_kinds(family, *others)]
    kernels = without(kernels, held_up_by_pages(analysis, device))
    blocks, threads = trace.attribute(Attribute.GRID, kernels), trace.attribute(Attribute.BLOCK, kernels)
    sms, lanes = multiprocessors_of(analysis, device), lanes_of(trace)
    used = np.minimum(blocks / sms, 1.0) * np.minimum(threads / lanes, 1.0)
    on_each = np.maximum(blocks / sms, 1.0) * threads
    used *= np.minimum(np.maximum(on_each, lanes) / (SCHEDULERS * lanes), 1.0)
    little = (blocks > 0) & (threads > 0) & ((used < MAJORITY) | (threads <= MAJORITY * lanes))
    return kernels[little], used[little]


def warps_held(analysis: Analysis, device: int, blocks: I64, threads: I64) -> F64:
    """The part (0 to 1) of an SM's warps that each launch fills, by its blocks and their threads alone."""
    trace = analysis.trace
    most = MAX_WARPS.get(trace.devices[device].compute_capability or (9, 0), 64)
    on_each = np.minimum(blocks / multiprocessors_of(analysis, device), MAX_BLOCKS)
    warps = -(-threads // lanes_of(trace))
    return np.minimum(on_each * warps / most, 1.0)


_OF_LIBRARIES = regex(
    r"(?i)::|nccl|nvjet|cutlass|cublas|cudnn|\bsm\d\d|ampere|hopper|volta|turing|^triton_(poi|red|per|tem|for|mm)|^Mem"
)


def has_own_name(trace: Trace, kernels: I64) -> BOOL:
    """Which kernels have no name of a library or a compiler, whose users do not launch them themselves."""
    return ~named(trace, kernels, _OF_LIBRARIES.search)


def launched_alone(analysis: Analysis, kernels: I64) -> I64:
    """The places of those kernels that no operator launched."""
    launch = analysis.trace.links.launch_of(kernels)
    at = np.flatnonzero(launch >= 0)
    launch = launch[at]
    alone = np.zeros(len(at), bool)
    for activity, mine in analysis.threads.by_thread(launch):
        alone[mine] = activity.operators.at(analysis.trace.events.start[launch[mine]]) < 0
    return at[alone]


@dataclass(frozen=True, slots=True)
class LongestKernel:
    """``share`` is the part of the analysed time that all launches of the kernel take."""

    name: str
    family: Family
    share: float


@derived
def longest_kernel(analysis: Analysis) -> LongestKernel | None:
    """Of the GPU that computes least; None without kernels."""
    device = min(analysis.active_devices, key=lambda each: analysis.budgets(each).compute_ns, default=None)
    if device is None or analysis.window_ns <= 0:
        return None
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    if not len(kernels):
        return None
    took = time_by_name(trace, kernels)
    longest = int(took.argmax())
    return LongestKernel(
        kernel_name(trace.strings[longest]),
        list(Family)[int(analysis.family_of_string[longest])],
        float(took.max()) / analysis.window_ns,
    )
