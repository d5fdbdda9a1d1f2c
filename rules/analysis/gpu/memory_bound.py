"""Kernels that only move memory: chains that could be one kernel, and attention whose scores are written out."""

from __future__ import annotations

import re

import numpy as np

from parsers.model import BOOL, F64, I32, I64, U8, EventKind, derived_by
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations
from rules.analysis.gpu.inside_window import operations
from rules.analysis.names.families import Family

FUSABLE = (
    Family.ELEMENTWISE,
    Family.COPY_CAST,
    Family.NORMALISATION,
    Family.SOFTMAX,
    Family.REDUCTION,
    Family.RANDOM,
)
POINTWISE = (Family.ELEMENTWISE, Family.COPY_CAST, Family.RANDOM, Family.COPY)  # fuse into their neighbours
TWO_TENSORS_SAVE = 2 / 3  # of a kernel that adds two tensors: fused, it still has to read the second one
_TWO_TENSORS = regex(r"CUDAFunctor_add|BinaryFunctor|addcmul|addcdiv|lerp|where_kernel|threshold_kernel")
# read in a pattern of their own: nothing joins them
_SPATIAL = regex(r"upsample|grid_sampl|pool", re.IGNORECASE)
_ON_DEVICE = ("dtod", "device to device", "device -> device", "devicetodevice")
MIN_NS = 3_000  # a shorter kernel is over before memory bandwidth matters


@dataclass(frozen=True, slots=True, eq=False)
class MemoryBound:
    """Kernels of one device inside the window, in order of start on their streams.

    ``saved_ns`` is what fusing could save at most: the pointwise kernels of a chain with a reduction, normalisation or
    softmax to fuse them into; all but the longest of a chain without; of written-out attention everything between
    the two matrix products. Copies among themselves save nothing: each moves a tensor of its own.
    """

    device: int
    events: I64
    attention: I64
    saved_ns: int
    attention_ns: int
    chains: int
    families: tuple[tuple[Family, int], ...]  # ns by family, the largest first

    @property
    def total_ns(self) -> int:
        return sum(ns for _, ns in self.families)


@derived_by
def memory_bound(analysis: Analysis, device: int) -> MemoryBound:
    """The fusable kernels of one device."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL, EventKind.MEMCPY)
    kernels = kernels[np.lexsort((trace.events.start[kernels], trace.events.lane[kernels]))]
    family = analysis.family_of_string[trace.events.name[kernels]]
    duration = durations(trace, kernels)
    fusable = of_kinds(family, *FUSABLE) | (
        of_kinds(family, Family.COPY) & named(trace, kernels, _inside_device)
    )
    fusable &= ~named(trace, kernels, _SPATIAL.search)
    lane = trace.events.lane[kernels]
    run = _runs(fusable, lane, _step_numbers(analysis, device, trace.events.start[kernels]))
    count = int(run.max(initial=-1)) + 1
    inside = run >= 0
    size = np.bincount(run[inside], minlength=count)
    time = np.bincount(run[inside], duration[inside], minlength=count).astype(np.int64)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, run[inside], duration[inside])
    avoidable = np.where(named(trace, kernels, _TWO_TENSORS.search), duration * TWO_TENSORS_SAVE, duration)
    fused = _saved_by_fusing(family[inside], avoidable[inside], run[inside], count)
    scores = _attention_runs(analysis, kernels, family, run, count)
    saved = np.where(scores, time, fused)
    worth = (size >= 2) & (longest >= MIN_NS) & (fused > 0) | scores
    chosen = inside & worth[np.maximum(run, 0)] if count else inside
    in_scores = inside & scores[np.maximum(run, 0)] if count else inside
    by_family = np.bincount(family[chosen], duration[chosen], minlength=len(Family))
    order = sorted(np.flatnonzero(by_family).tolist(), key=lambda index: -by_family[index])
    return MemoryBound(
        device=device,
        events=kernels[chosen],
        attention=kernels[in_scores],
        saved_ns=int(saved[worth].sum()) if count else 0,
        attention_ns=int(time[scores].sum()) if count else 0,
        chains=int(np.count_nonzero(worth)),
        families=tuple((Family(index), int(by_family[index])) for index in order),
    )


def _saved_by_fusing(family: U8, duration: F64, run: I64, count: int) -> I64:
    """What each run could save at most if its pointwise kernels became part of their neighbours, ns."""
    pointwise = of_kinds(family, *POINTWISE)
    time = np.bincount(run[pointwise], duration[pointwise], minlength=count).astype(np.int64)
    longest = np.zeros(count)
    np.maximum.at(longest, run[pointwise], duration[pointwise])
    has_anchor = np.bincount(run[~pointwise], minlength=count) > 0
    copies = of_kinds(family, Family.COPY_CAST, Family.COPY)
    only_copies = np.bincount(run[~copies], minlength=count) == 0
    return np.where(only_copies, 0, np.where(has_anchor, time, time - longest)).astype(np.int64)


def _is_of_a_loss(name: str) -> bool:
    return any(words in name.lower() for words in ("logsoftmax", "nll_loss", "cross_entropy"))


def _is_backward(name: str) -> bool:
    return "backward" in name.lower()


def _inside_device(name: str) -> bool:
    return any(words in name.lower() for words in _ON_DEVICE)


def _step_numbers(analysis: Analysis, device: int, start: I64) -> I64:
    """The step in which each operation starts: what belongs to different steps cannot be fused."""
    rank = analysis.trace.devices[device].rank
    edges = np.array([step.start for step in analysis.steps if step.rank == rank], np.int64)
    return np.searchsorted(edges, start, side="right").astype(np.int64)


def _runs(member: BOOL, lane: I32, step: I64) -> I64:
    """The number of the unbroken run, inside a step, that each member belongs to; -1 for the others."""
    if not len(member):
        return np.empty(0, np.int64)
    elsewhere = (lane[1:] != lane[:-1]) | (step[1:] != step[:-1])
    first = member & np.concatenate(([True], ~member[:-1] | elsewhere))
    return np.where(member, np.cumsum(first) - 1, -1)


def _attention_runs(analysis: Analysis, kernels: I64, family: U8, run: I64, count: int) -> BOOL:
    """Runs between two matrix products that contain a softmax, and no loss.

    A log-softmax belongs to a loss, and so does what goes from a softmax to its gradient without a product between.
    """
    found = np.zeros(count, bool)
    if not count:
        return found
    softmax = of_kinds(family, Family.SOFTMAX) & (run >= 0)
    found[run[softmax]] = True
    found[run[named(analysis.trace, kernels, _is_of_a_loss) & (run >= 0)]] = False
    gradient = softmax & named(analysis.trace, kernels, _is_backward)
    forward, backward = np.zeros(count, bool), np.zeros(count, bool)
    forward[run[softmax & ~gradient]] = True
    backward[run[gradient]] = True
    found &= ~(forward & backward)
    first = np.full(count, len(run), np.int64)
    last = np.full(count, -1, np.int64)
    members = np.flatnonzero(run >= 0)
    np.minimum.at(first, run[members], members)
    np.maximum.at(last, run[members], members)
    product = of_kinds(family, Family.GEMM)
    before = product[np.maximum(first - 1, 0)] & (first > 0)
    after = product[np.minimum(last + 1, len(run) - 1)] & (last + 1 < len(run))
    return found & before & after
