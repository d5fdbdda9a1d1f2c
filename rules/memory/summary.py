"""What is known of each GPU's memory, from snapshots and from counters alike: peak, growth, what ran out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import I64, Array, Counter, Trace, derived
from parsers.model.arrays import distinct_values, median_of
from parsers.model.late import dataclass
from parsers.model.memory import Memory
from parsers.model.names.steps import step_number
from rules.analysis.analysis import Analysis
from rules.memory.account import DeviceMemory, Shortage, shortages
from rules.memory.operators import kinds_by_operators

MIN_STEPS = 3
FEW_DIFFERENCES = 4  # fewer must agree well, to tell growth from warm-up
MIN_GROWTH = 0.005  # of the peak, a step: after two hundred steps as much again
MIN_STEADINESS = 0.5  # the smallest difference is at least this part of the usual one ...
MIN_AGREEMENT = 0.9  # ... and of the largest one, where there are few
_MIN_STEP = 0.1  # of the median: what is shorter was cut off by the end of the recording


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes held when each step ended, and how many more each leaves than the one before; 0 where it does not grow."""

    ends: tuple[int, ...]
    after_steps: tuple[int, ...]
    per_step: int


def growth(ends: Sequence[int], time: I64, held: Array, peak: float) -> Growth:
    """How memory develops over steps; ``time`` ascending and ``held`` as they are sampled.

    The first step is left out of the judgement: it makes the optimizer's state and the caches of libraries.
    """
    ends = sorted(ends)
    at = np.searchsorted(time, np.array(ends, np.int64), side="right") - 1
    after = np.where(at >= 0, held[np.maximum(at, 0)] if len(held) else 0, 0).astype(np.int64)
    per_step = 0
    if len(ends) >= MIN_STEPS:
        more = np.diff(after[1:] if len(ends) > MIN_STEPS else after)
        least, usual = float(more.min()), float(median_of(more))
        agree = len(more) >= FEW_DIFFERENCES or least >= MIN_AGREEMENT * float(more.max())
        if usual > MIN_GROWTH * peak and least >= MIN_STEADINESS * usual and agree:
            per_step = round(float(more.mean()))
    return Growth(tuple(ends), tuple(after.tolist()), per_step)


def step_ends(analysis: Analysis, rank: int | None, memory: Memory | None) -> tuple[int, ...]:
    """When steps end, ns: those that the snapshot annotates, else those of the timeline."""
    marks = () if memory is None else memory.marks
    ranges = [(mark.start, mark.end) for mark in marks if step_number(mark.name) is not None] or [
        (step.start, step.end) for step in analysis.steps if rank is None or step.rank in (None, rank)
    ]
    if not ranges:
        return ()
    usual = float(median_of([end - start for start, end in ranges]))
    return tuple(end for start, end in ranges if end - start >= _MIN_STEP * usual)


@dataclass(frozen=True, eq=False)
class MemorySummary:
    """One GPU: sizes in bytes, times in ns; ``account`` is None where only totals were recorded."""

    device: int  # index into Trace.devices
    peak_allocated: int
    peak_reserved: int | None
    peak_at: int
    growth: Growth
    account: DeviceMemory | None = None
    shortages: tuple[Shortage, ...] = ()
    given_back: int = 0  # how often the allocator returned reserved memory to the driver


@derived
def memory_of(analysis: Analysis) -> tuple[MemorySummary, ...]:
    """Every GPU whose memory was recorded, those with snapshots first."""
    trace = analysis.trace
    found: dict[int, MemorySummary] = {}
    for memory in sorted(trace.memory, key=lambda each: not each.frames):  # those with stacks tell most
        for device in distinct_values(memory.allocations.device).tolist():
            if device not in found:
                found[device] = _of_allocations(analysis, memory, device)
    for device in range(len(trace.devices)):
        counter = _counter(trace, device, "allocated")
        if device not in found and counter is not None:
            found[device] = _of_counters(analysis, counter, device)
    return tuple(found.values())


def _of_allocations(analysis: Analysis, memory: Memory, device: int) -> MemorySummary:
    by_operators = None if memory.frames else kinds_by_operators(analysis.trace, memory)
    account = DeviceMemory.of(memory, device, by_operators)
    reserved = _counter(analysis.trace, device, "reserved")
    ends = step_ends(analysis, analysis.trace.devices[device].rank, memory)
    grown = growth(ends, account.time, account.held, account.peak)
    if grown.per_step:
        account = account.with_kept(grown.ends)
    failed = [failure.time for failure in memory.failures if failure.device == device]
    held = reserved.at(failed[-1]) if reserved is not None and failed else None
    return MemorySummary(
        device,
        account.peak,
        int(reserved.value.max()) if reserved is not None else None,
        account.peak_at,
        grown,
        account,
        shortages(account, int(held or 0)),
        _given_back(reserved),
    )


def _of_counters(analysis: Analysis, allocated: Counter, device: int) -> MemorySummary:
    reserved = _counter(analysis.trace, device, "reserved")
    peak = int(allocated.value.max())
    ends = step_ends(analysis, analysis.trace.devices[device].rank, None)
    return MemorySummary(
        device,
        peak,
        int(reserved.value.max()) if reserved is not None else None,
        int(allocated.time[int(allocated.value.argmax())]),
        growth(ends, allocated.time, allocated.value, peak),
        given_back=_given_back(reserved),
    )


def _given_back(reserved: Counter | None) -> int:
    """How often reserved memory falls; falls that follow one another without a rise are one."""
    moves = np.diff(reserved.value) if reserved is not None else np.zeros(0)
    falls = moves[moves != 0] < 0
    return int((falls & ~np.append(False, falls[:-1])).sum())


def reserved_of(trace: Trace, device: int) -> Counter | None:
    """What the allocator of a device had from the driver, over time."""
    return _counter(trace, device, "reserved")


def _counter(trace: Trace, device: int, what: str) -> Counter | None:
    """The allocator's own counter of a device, not one of the whole GPU."""
    return next(
        (
            each
            for each in trace.counters
            if each.device == device
            and each.name.endswith(f"{what} memory")
            and len(each.value)
            and each.value.any()
        ),
        None,
    )


MAX_FILLED = 0.7  # of the GPU's memory: fuller, it has no room for what would be kept


def is_nearly_full(analysis: Analysis) -> bool:
    """Whether the tensors of any GPU filled more of its memory than that; False where no memory was recorded."""
    devices = analysis.trace.devices
    return any(
        each.peak_allocated > MAX_FILLED * (devices[each.device].memory_bytes or np.inf)
        for each in memory_of(analysis)
    )
