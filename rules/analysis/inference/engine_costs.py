"""What an engine spends beside its model: time between steps, sampling on the host, traffic of the KV cache."""

from __future__ import annotations

import re
from functools import partial

import numpy as np

from parsers.model import I64, EventKind, Trace
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.intervals import EMPTY, Intervals, complement, intersect, length, union
from rules.analysis.inference.engine_steps import EngineSteps
from rules.analysis.inference.requests import Requests

_SAMPLING = regex(
    r"(?:^|[\s:./_])(?:sample|sampler|sampling|sample_tokens?)(?:\.py\b|$|[\s(:\[])", re.IGNORECASE
)
_CACHE = regex(
    r"reshape_and_cache|concat_and_cache|(?:copy|swap)_blocks|kv_?cache|store_kv|set_kv_buffer|append_?paged_?kv",
    re.IGNORECASE,
)
_COMPUTES = regex(r"decode|prefill|attention|mha|fmha|flash_fwd|splitkv", re.IGNORECASE)
_INDEXED = regex(r"vectorized_gather|index_elementwise|indexSelect|index_put|index_copy")


@dataclass(frozen=True, slots=True)
class BetweenSteps:
    """ns between engine steps while requests were waiting or being answered, and how long the GPUs idled meanwhile.

    ``share`` is of the time from the first to the last step. Without requests on the clock of the recording all of the
    time between steps counts.
    """

    ns: int
    gpu_idle_ns: int
    share: float

    @property
    def queue_is_empty(self) -> bool:
        """Whether the GPUs had nothing left to do for most of it."""
        return 2 * self.gpu_idle_ns > self.ns


@dataclass(frozen=True, slots=True)
class HostSampling:
    """Ranges in which tokens are chosen: how many, their ns in all, as a share of the time of the engine's steps."""

    count: int
    ns: int
    gpu_idle_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class CacheTraffic:
    """Kernels that write, gather or move the KV cache: how many, their ns, as a share of all kernels' ns in steps.

    Unless ``by_name``, no kernel is called so, and these are PyTorch's indexed reads and writes.
    """

    count: int
    ns: int
    share: float
    by_name: bool


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """None where nothing of the kind was recorded."""

    between: BetweenSteps | None
    sampling: HostSampling | None
    cache: CacheTraffic | None


def engine_costs(trace: Trace, steps: EngineSteps, requests: Requests | None) -> EngineCosts:
    """Of the rank that the steps are of."""
    if not len(steps):
        return EngineCosts(None, None, None)
    rank = trace.lanes[trace.events.lane[steps.event[0]]].rank
    operations = np.concatenate(
        [
            np.empty(0, np.int64),
            *(
                trace.operations_of_device(number)
                for number, device in enumerate(trace.devices)
                if rank is None or device.rank == rank
            ),
        ]
    )
    busy = union(*trace.events.spans(operations))
    whole = int(steps.start.min()), int(steps.end.max())
    idle = complement(busy, *whole) if len(operations) else EMPTY
    inside = union(steps.start, steps.end)
    on_host = trace.events.kind[steps.event[0]] == EventKind.REGION
    return EngineCosts(
        _between(inside, whole, idle, requests) if on_host and len(operations) else None,
        _sampling(trace, steps, inside, idle),
        _cache(trace, operations, whole),
    )


def _between(
    inside: Intervals, whole: tuple[int, int], idle: Intervals, requests: Requests | None
) -> BetweenSteps | None:
    gaps = complement(inside, *whole)
    if requests is not None and requests.offset_ns is not None:
        gaps = intersect(gaps, _asked_for(requests, requests.offset_ns, whole[1]))
    ns = length(gaps)
    return BetweenSteps(ns, length(intersect(gaps, idle)), ns / max(whole[1] - whole[0], 1)) if ns else None


def _asked_for(requests: Requests, offset: float, last: int) -> Intervals:
    """When at least one request waits or is being answered."""
    known = np.isfinite(requests.arrival)
    end = np.where(np.isfinite(requests.end), requests.end + offset, last)
    return union((requests.arrival[known] + offset).astype(np.int64), end[known].astype(np.int64))


def _sampling(trace: Trace, steps: EngineSteps, inside: Intervals, idle: Intervals) -> HostSampling | None:
    events = trace.events
    home = trace.lanes[events.lane[steps.event[0]]]
    for kind in (EventKind.REGION, EventKind.PYTHON):
        found = events.of_kind(kind)
        found = found[named(trace, found, _SAMPLING.search)]
        here = np.array([lane.rank == home.rank for lane in trace.lanes], bool)
        found = found[here[events.lane[found]]] if len(found) else found
        spent = intersect(union(*events.spans(found)), inside)
        if len(spent[0]):
            ns = length(spent)
            return HostSampling(
                len(spent[0]), ns, length(intersect(spent, idle)), ns / max(length(inside), 1)
            )
    return None


def _moves(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.search(name) is not None and _COMPUTES.search(name) is None


def _cache(trace: Trace, operations: I64, whole: tuple[int, int]) -> CacheTraffic | None:
    events = trace.events
    kernels = operations[events.kind[operations] == EventKind.KERNEL]
    kernels = kernels[(events.start[kernels] >= whole[0]) & (events.start[kernels] < whole[1])]
    taken = events.end[kernels] - events.start[kernels]
    for by_name, pattern in ((True, _CACHE), (False, _INDEXED)):
        moves = named(trace, kernels, partial(_moves, pattern))
        if moves.any():
            ns = int(taken[moves].sum())
            return CacheTraffic(int(moves.sum()), ns, ns / max(int(taken.sum()), 1), by_name)
    return None
