"""Iterations without any annotation: the cycle that explains the whole sequence of a GPU's operations."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, EventKind, Trace
from parsers.model.names.kernels import base_name
from parsers.model.names.per_name import distinct, named
from rules.analysis.names.families import Family, classify
from rules.analysis.steps.recurrence import COMPLETE, Cycles, cycles_in
from rules.analysis.steps.rounds import rounds_of

LONGEST_SEQUENCE = 200_000
LEAST_OPERATIONS = 2  # of a cycle
LEAST_KERNELS = 2  # of a cycle that reads nothing back: one alone is a kernel that is run often
NEARLY_EVERY = 0.9  # cycle, or boundary
PART_OF_CYCLE = 0.2  # what lies outside of all cycles is no more than this of one, or belongs to another one
LEAST_WAIT_SHARE = 0.5  # of a cycle's idle time that must lie at its boundary: a model's layers repeat, too
LEAST_OF_CYCLES = 0.5  # a step runs every layer, so a layer's region comes in every cycle that is a step
ALIKE_THREADS = 0.9  # cosine of what two threads launch: requests are served side by side
LEAST_OF_LAUNCHES = 0.1  # of a thread that counts
_LAYER = re.compile(r"(?<![a-z])(layers?|blocks?|h)[._ \[]*\d+(?!\d)", re.IGNORECASE)
_VARIANTS = (Family.GEMM, Family.CONVOLUTION, Family.ATTENTION, Family.MEMSET)


def repetitions(trace: Trace, operations: I64) -> list[tuple[int, int]]:
    """(start, end) of each cycle on the busiest device; none where nothing repeats from end to end.

    ``operations`` are in order of their launch. Of several cycles that explain the sequence, the shortest that is a
    step is taken: it reads a result back, ends with an optimizer, or ends where the GPU waits.
    """
    order = _of_busiest_device(trace, operations)[:LONGEST_SEQUENCE]
    if len(order) < LEAST_OPERATIONS or _served_side_by_side(trace, order):
        return []
    names = np.unique(trace.events.name[order], return_inverse=True)[1].astype(np.int64)
    kinds = _kinds(trace, order)
    for cycles in cycles_in(names, kinds):
        if cycles.length < LEAST_OPERATIONS or not _is_step(trace, order, cycles):
            continue
        begins = _cut_at_longest_wait(trace, order, kinds, cycles)
        if not _are_layers(trace, len(begins)):
            return _times(trace, order, *_rounds(trace, order, begins, cycles.length))
    return []


def _rounds(trace: Trace, order: I64, begins: I64, length: int) -> tuple[I64, int]:
    """The beginnings of steps and their operations, where the cycles are those of a loop inside each step."""
    last = np.minimum(begins + length, len(order)) - 1
    optimizes = named(trace, order, lambda name: classify(name).family is Family.OPTIMIZER)
    counts = np.diff(np.append(begins, len(order)))
    starts, ends = trace.events.start[order[begins]], trace.events.end[order[last]]
    found = rounds_of(begins, counts, starts, ends, bool(optimizes.any()))
    if not len(found):
        return begins, length
    return begins[found], int(np.median(np.diff(begins[found])))


def _of_busiest_device(trace: Trace, operations: I64) -> I64:
    device = trace.lane_device[trace.events.lane[operations]]
    found, counts = np.unique(device, return_counts=True)
    return operations[device == found[counts.argmax()]] if len(found) else operations


def _kinds(trace: Trace, order: I64) -> I64:
    """A number for what operations are alike in, whatever variant of a kernel a library picked for the size."""
    known: dict[str, int] = {}
    table = np.zeros(len(trace.strings), np.int64)
    for name in distinct(trace.events.name[order]).tolist():
        text = trace.strings[name]
        family = classify(text).family
        kind = family.label if family in _VARIANTS else text if family is Family.OTHER else base_name(text)
        table[name] = known.setdefault(kind, len(known))
    return table[trace.events.name[order]]


def _served_side_by_side(trace: Trace, order: I64) -> bool:
    """Whether several threads (streams, where launches are not recorded) run the same work at the same time."""
    launch = trace.links.launch_of(order)
    lane = np.where(launch >= 0, trace.events.lane[np.maximum(launch, 0)], trace.events.lane[order])
    lanes, mine, counts = np.unique(lane, return_inverse=True, return_counts=True)
    some = np.flatnonzero(counts >= LEAST_OF_LAUNCHES * len(order))
    if len(some) < 2:
        return False
    names, name = np.unique(trace.events.name[order], return_inverse=True)
    held = np.bincount(mine * len(names) + name, minlength=len(lanes) * len(names))
    held = held.reshape(len(lanes), len(names))[some].astype(np.float64)
    size = np.sqrt((held * held).sum(axis=1))
    alike = np.triu(held @ held.T, 1) >= ALIKE_THREADS * np.outer(size, size)
    first = np.array([np.flatnonzero(mine == each)[[0, -1]] for each in some])
    together = (first[:, None, 0] < first[None, :, 1]) & (first[None, :, 0] < first[:, None, 1])
    return bool((alike & together).any())


def _is_step(trace: Trace, order: I64, cycles: Cycles) -> bool:
    """Whether cycles do what a step does, which a model's layers do not."""
    optimizes = named(trace, order, lambda name: classify(name).family is Family.OPTIMIZER)
    if optimizes.any():
        return _in_nearly_every(optimizes, cycles)
    if cycles.after > PART_OF_CYCLE:
        return False
    read_back = trace.attribute(Attribute.COPY_KIND, order) == CopyKind.D2H.value
    if _in_nearly_every(read_back, cycles):
        return True
    kinds = trace.events.kind[order[cycles.begins[0] : cycles.begins[1]]]
    if (
        cycles.before > PART_OF_CYCLE
        or np.isin(kinds, (EventKind.KERNEL, EventKind.GRAPH)).sum() < LEAST_KERNELS
    ):
        return False
    return (
        len(order) == cycles.length * len(cycles.begins) * cycles.explained
        or _is_one_launch(trace, order, cycles)
        or _waits_between(trace, order, cycles)
    )


def _in_nearly_every(wanted: BOOL, cycles: Cycles) -> bool:
    before = np.concatenate(([0], np.cumsum(wanted)))[cycles.begins]
    return float(np.mean(before[1:] > before[:-1])) >= NEARLY_EVERY


def _is_one_launch(trace: Trace, order: I64, cycles: Cycles) -> bool:
    """Whether nearly each cycle whose launches are recorded is what one launch of a graph runs."""
    launch = trace.links.launch_of(order)
    changes = np.concatenate(([0], np.cumsum(launch[1:] != launch[:-1])))[cycles.begins]
    recorded = launch[cycles.begins[:-1]] >= 0
    return bool(recorded.any() and np.mean(np.diff(changes)[recorded] == 1) >= NEARLY_EVERY)


def _waits_between(trace: Trace, order: I64, cycles: Cycles) -> bool:
    """Whether most idle time of a typical cycle lies at one place."""
    wait = _waits(trace, order)
    places = cycles.begins[:-1, None] + np.arange(cycles.length)
    usual = np.median(wait[np.minimum(places, len(order) - 1)], axis=0)
    return bool(usual.max() > 0 and usual.max() >= LEAST_WAIT_SHARE * usual.sum())


def _waits(trace: Trace, order: I64) -> I64:
    """How long the device had been idle when each operation began, ns."""
    start = trace.events.start[order]
    by_start = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(trace.events.end[order[by_start]])
    wait = np.zeros(len(order), np.int64)
    wait[by_start[1:]] = np.maximum(start[by_start[1:]] - reach[:-1], 0)
    return wait


def _cut_at_longest_wait(trace: Trace, order: I64, kinds: I64, cycles: Cycles) -> I64:
    """The beginnings moved together, while the same operations stand there, to where most cycles are complete.

    Where that is so at several places, to where the GPU waits longest. A last cycle that is cut off is left out.
    """
    begins, length = cycles.begins, cycles.length
    least = round(COMPLETE * length)
    shifts = np.arange(-_common(kinds, begins, -1, length), _common(kinds, begins[:-1], 1, length) + 1)
    complete = (begins[:, None] + shifts + least <= len(order)).sum(axis=0)
    wait = np.median(_waits(trace, order)[begins[:-1, None] + shifts], axis=0)
    chosen: I64 = begins + shifts[np.lexsort((np.abs(shifts), -wait, -complete))[0]]
    last = np.isin(kinds[chosen[-1] : chosen[-1] + length], kinds[chosen[-2] : chosen[-2] + length]).sum()
    return chosen if last >= least else chosen[:-1]


def _common(kinds: I64, begins: I64, way: int, most: int) -> int:
    """How far from all beginnings the same kinds follow (``way`` 1) or precede (-1), less than ``most``."""
    here = begins if way > 0 else begins + way
    reach = min(most - 1, int(len(kinds) - 1 - begins[-1] if way > 0 else begins[0]))
    if reach <= 0:
        return 0
    rows = kinds[here[:, None] + way * np.arange(reach)]
    differs = (rows != rows[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else reach


def _times(trace: Trace, order: I64, begins: I64, length: int) -> list[tuple[int, int]]:
    starts = np.maximum.accumulate(trace.events.start[order[begins]])
    last = order[int(begins[-1]) : int(begins[-1]) + length]
    times = [*starts.tolist(), int(trace.events.end[last].max())]
    return [(start, end) for start, end in pairwise(times) if end > start]


def _are_layers(trace: Trace, cycles: int) -> bool:
    """Whether what repeats are a model's layers: ranges number them, and each number comes in few of the cycles."""
    ranges = trace.events.of_kind(EventKind.REGION, EventKind.CPU_OP)
    lanes, names = trace.events.lane[ranges].astype(np.int64), trace.events.name[ranges]
    of_layers = np.array([_LAYER.search(text) is not None for text in trace.strings], bool)[names]
    counts = np.unique(lanes[of_layers] << 32 | names[of_layers], return_counts=True)[1]
    return len(counts) > 1 and float(np.median(counts)) < LEAST_OF_CYCLES * cycles
