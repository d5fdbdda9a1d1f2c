"""Which GPU of a timeline each GPU of a memory snapshot is, when both recorded the same process."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.model import Trace


def device_indices(traces: Sequence[Trace]) -> list[list[int]]:
    """For each trace, where its devices stand among those of the run.

    A recording of memory alone shares the GPU that a timeline calls by the same number; where several ranks do, its
    file's rank decides, and without one it keeps a GPU of its own.
    """
    indices: list[list[int]] = []
    count = 0
    for trace in traces:
        if is_memory_alone(trace):
            indices.append([])
            continue
        indices.append(list(range(count, count + len(trace.devices))))
        count += len(trace.devices)
    for number, trace in enumerate(traces):
        if not is_memory_alone(trace):
            continue
        for device in trace.devices:
            rank = trace.inputs[0].rank if trace.inputs else None
            same = [
                index
                for other, places in zip(traces, indices, strict=True)
                if not is_memory_alone(other)
                for index, theirs in zip(places, other.devices, strict=True)
                if theirs.id == device.id and (rank is None or theirs.rank == rank)
            ]
            indices[number].append(same[0] if len(same) == 1 else count)
            count += len(same) != 1
    return indices


def is_memory_alone(trace: Trace) -> bool:
    """Whether a recording holds what an allocator recorded and no timeline."""
    return bool(trace.memory) and not len(trace.events)
