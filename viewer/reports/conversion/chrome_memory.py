"""The allocator's samples as PyTorch's profiler writes them: an instant for each allocation and each release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from parsers.model import Counter, Trace
from parsers.model.memory import AFTER, BEFORE, Memory

_GPU, _CPU = 1, 0  # c10::DeviceType
_ALLOCATED, _RESERVED = "allocated memory", "reserved memory"


def without_samples(trace: Trace) -> list[Counter]:
    """The counters that ``memory_events`` does not write."""
    return [counter for counter in trace.counters if not counter.name.endswith((_ALLOCATED, _RESERVED))]


def memory_events(trace: Trace, holds: Callable[[int | None], bool]) -> Iterator[dict[str, Any]]:
    """Allocations where they are known, else the totals as they were sampled; ``holds`` chooses ranks."""
    known = set()
    for memory in trace.memory:
        if not len(memory.blocks.address):
            for device in np.unique(memory.allocations.device).tolist():
                known.add(device)
                if holds(trace.devices[device].rank):
                    yield from _of_allocations(trace, memory, device)
    for counter in trace.counters:
        if (
            counter.name.endswith(_ALLOCATED)
            and counter.device not in known
            and holds(counter.rank if counter.device is None else trace.devices[counter.device].rank)
        ):
            yield from _of_totals(trace, counter)


def _of_allocations(trace: Trace, memory: Memory, device: int) -> Iterator[dict[str, Any]]:
    table = memory.allocations
    mine = table.device == device
    start, end, size, address, thread = (
        column[mine] for column in (table.start, table.end, table.size, table.address, table.thread)
    )
    begun, ended = start != BEFORE, end != AFTER
    time = np.concatenate([start[begun], end[ended]])
    change = np.concatenate([size[begun], -size[ended]])
    order = np.lexsort((change, time))
    held = int(size[~begun].sum()) + np.cumsum(change[order])
    where = np.concatenate([address[begun], address[ended]])[order]
    threads = np.concatenate([thread[begun], thread[ended]])[order]
    reserved = _reserved(trace, device)
    for when, total, bytes_, at, tid in zip(
        time[order].tolist(),
        held.tolist(),
        change[order].tolist(),
        where.tolist(),
        threads.tolist(),
        strict=True,
    ):
        yield _instant(
            when,
            tid,
            {
                "Device Type": _GPU,
                "Device Id": trace.devices[device].id,
                "Addr": at,
                "Bytes": bytes_,
                "Total Allocated": total,
                "Total Reserved": int((reserved.at(when) if reserved is not None else None) or 0),
            },
        )


def _of_totals(trace: Trace, allocated: Counter) -> Iterator[dict[str, Any]]:
    reserved = _reserved(trace, allocated.device)
    number = -1 if allocated.device is None else trace.devices[allocated.device].id
    for when, total in zip(allocated.time.tolist(), allocated.value.tolist(), strict=True):
        yield _instant(
            when,
            -1,
            {
                "Device Type": _CPU if allocated.device is None else _GPU,
                "Device Id": number,
                "Total Allocated": int(total),
                "Total Reserved": int((reserved.at(when) if reserved is not None else None) or 0),
            },
        )


def _reserved(trace: Trace, device: int | None) -> Counter | None:
    return next(
        (each for each in trace.counters if each.device == device and each.name.endswith(_RESERVED)), None
    )


def _instant(when: int, thread: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 0,
        "tid": thread,
        "ts": when / 1000,
        "args": arguments,
    }
