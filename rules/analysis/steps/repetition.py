"""Iterations without any annotation: the cycle that explains the whole sequence of a GPU's operations."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, EventKind, Trace
from parsers.model.arrays import distinct_values, median_of
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.kernels import base_name
from parsers.model.names.per_name import distinct, named
from rules.analysis.names.families import Family, classify
from rules.terms import MAJORITY, NEARLY_ALL

# a step that saves or validates now and then does so less often in a recording of a few steps
MIN_ROUNDS = 4
ALIKE_ROUNDS = 0.95  # of the cycles are as the one a round later
LONG = 0.5  # of the longest waits between cycles
# of a cycle's operations: an update of another network, where a log or a validation only adds some
LESS = 0.9
ODD_TIME = 1.5  # times a usual cycle: what is added takes so long that the cycles are no steps of one length


def rounds_of(begins: I64, counts: I64, starts: I64, ends: I64, trains: bool) -> I64:
    """Which cycles begin a round, as ascending places in ``begins``; empty where the cycles are the steps.

    ``counts`` are the operations from each cycle to the next, ``starts`` (ns) when each begins, ``ends`` when its own
    operations end. Where an optimizer runs in each (``trains``), a round must hold a cycle that does less than others.
    """
    none = np.empty(0, np.int64)
    whole = len(begins) - 1  # the last one may be cut off
    if whole < 2 * MIN_ROUNDS - 1:
        return none
    lasted, waits = np.diff(starts), starts[1:] - ends[:-1]
    usual = float(median_of(lasted))
    long = waits >= max(LONG * float(np.sort(waits)[-(MIN_ROUNDS - 1)]), usual)
    marks = np.unique(np.stack((counts[:whole], long)), axis=1, return_inverse=True)[1].ravel()
    for length in range(2, len(begins) // MIN_ROUNDS + 1):
        if np.mean(marks[length:] == marks[:-length]) >= ALIKE_ROUNDS and np.any(marks != marks[0]):
            break
    else:
        return none
    common = float(median_of(counts[:whole]))
    unlike = np.abs(counts[:whole] - common) + long * common
    phases = np.array([unlike[phase::length].mean() for phase in range(length)])
    odd = np.arange(int(phases.argmax()), whole, length)
    enough = median_of(counts[odd]) < LESS * common if trains else median_of(lasted[odd]) >= ODD_TIME * usual
    found: I64 = np.append(0, odd + 1) if odd[0] + 1 == length else odd + 1
    found = found[found < len(begins)]
    return found if enough and len(found) >= MIN_ROUNDS else none


MIN_CYCLES = 3
MAX_WORD_LENGTH = 8  # names that are looked at together: a transition is rarer than the names it joins
MAX_CANDIDATES = 48  # the most regular ones
ALIKE = 0.6  # what a cycle and a typical one have in common, over what either has
AS_GOOD = 0.02  # difference in what is explained that an evaluation every few steps makes, too
MAX_COUNTS = 20_000_000  # cycles times names: a table of this size is still quick
OF_SPACINGS = 0.8  # most cycles are equally long; a first one that warms up need not be


@dataclass(frozen=True, slots=True)
class Cycles:
    """Where each cycle begins, as ascending places in the sequence; the last one may be cut off.

    ``explained`` is the share of the sequence after the first cycle that a typical cycle accounts for; ``before`` and
    ``after`` are what it does not account for before the first and from the last on, in typical cycles. ``length`` is
    how many operations a typical cycle has.
    """

    begins: I64
    length: int
    explained: float
    before: float
    after: float


def cycles_in(names: I64, kinds: I64) -> list[Cycles]:
    """All ways to cut a sequence into cycles that are alike and explain nearly all of it, the shortest cycles first.

    ``names`` are the exact names, ``kinds`` what is alike among them (a library picks another variant of a kernel for
    another size); both count from 0.
    """
    best: dict[int, tuple[float, int, I64]] = {}
    for words in (names, *_words(kinds)):
        for spread, votes, places in _regular_marks(words):
            known = best.get(len(places))
            votes += known[1] if known else 0
            if known is None or spread < known[0]:
                best[len(places)] = spread, votes, places
            else:
                best[len(places)] = known[0], votes, known[2]
    promising = sorted(best.values(), key=lambda each: (round(each[0], 1), -each[1]))[:MAX_CANDIDATES]
    found = [cycles for _, _, places in promising if (cycles := _judged(kinds, places)) is not None]
    most = max((each.explained for each in found), default=0.0)
    return sorted(
        (each for each in found if each.explained >= most - AS_GOOD), key=lambda each: -len(each.begins)
    )


def _words(kinds: I64) -> list[I64]:
    """The sequence as numbers of words of 1, 2, 4 and 8 kinds that begin at each place."""
    words, length = [kinds], 1
    while length < MAX_WORD_LENGTH:
        one = words[-1]
        other = np.concatenate((one[length:], np.full(min(length, len(one)), -1, np.int64)))
        words.append(
            np.unique(one * (int(one.max()) + 2) + other + 1, return_inverse=True)[1].astype(np.int64)
        )
        length *= 2
    return words


def _regular_marks(words: I64) -> list[tuple[float, int, I64]]:
    """For each count of places the word that comes that often and most evenly: (spread, how many words, places)."""
    inverse, counts = np.unique(words, return_inverse=True, return_counts=True)[1:]
    order = np.argsort(inverse, kind="stable")
    first = np.cumsum(counts) - counts
    found = []
    for count in distinct_values(counts).tolist():
        if not MIN_CYCLES <= count <= len(words) // 2:
            continue
        mine = np.flatnonzero(counts == count)
        places = order[first[mine][:, None] + np.arange(count)]
        places = places[(places[:, -1] - places[:, 0]) * count >= MAJORITY * (count - 1) * len(words)]
        if not len(places):
            continue
        spacing = np.diff(places, axis=1)
        usual = median_of(spacing, axis=1)
        spread = np.quantile(np.abs(spacing - usual[:, None]), OF_SPACINGS, axis=1) / usual
        chosen = int(np.lexsort((places[:, 0], np.round(spread, 3)))[0])
        found.append((float(spread[chosen]), len(places), places[chosen].astype(np.int64)))
    return found


def _judged(kinds: I64, begins: I64) -> Cycles | None:
    """The cycles that begin at these places; None where they differ or leave much unexplained."""
    count, variety = len(begins), int(kinds.max()) + 1
    if count * variety > MAX_COUNTS:
        return None
    cycle = np.searchsorted(begins, np.arange(len(kinds)), side="right")  # 0 is what comes before the first
    held = np.bincount(cycle * variety + kinds, minlength=(count + 1) * variety).reshape(count + 1, variety)
    usual = median_of(held[2:count] if count > MIN_CYCLES else held[1:count], axis=0)
    in_common = np.minimum(held, usual).sum(axis=1)
    alike = in_common / np.maximum(np.maximum(held, usual).sum(axis=1), 1)
    sizes = held.sum(axis=1)
    judged_from = 2 if count > MIN_CYCLES else 1
    explained = float(in_common[judged_from:].sum() / max(sizes[judged_from:].sum(), 1))
    if explained < NEARLY_ALL or np.mean(alike[judged_from:count] >= ALIKE) < NEARLY_ALL:
        return None
    length = max(round(float(usual.sum())), 1)
    complete = np.flatnonzero((in_common[1:] >= NEARLY_ALL * length) | (alike[1:] >= ALIKE))
    first, last = int(complete[0]), min(int(complete[-1]) + 1, count - 1)
    unexplained = sizes - in_common
    before, after = float(unexplained[: first + 1].sum()), float(unexplained[last + 1 :].sum())
    return Cycles(begins[first : last + 1], length, explained, before / length, after / length)


MAX_SEQUENCE_LENGTH = 200_000
MIN_KERNELS = 2  # of a cycle that reads nothing back: one alone is a kernel that is run often
PART_OF_CYCLE = 0.2  # what lies outside of all cycles is no more than this of one, or belongs to another one
ALIKE_THREADS = 0.9  # cosine of what two threads launch: requests are served side by side
MIN_LAUNCH_SHARE = 0.1  # of a thread that counts
_MODULE = regex(
    r"^nn\.Module: |(^|[/\\])torch[/\\]nn[/\\]modules[/\\]module\.py\(\d+\): _(wrapped_)?call_impl$"
)
_LAYER = regex(r"(?<![a-z])(layers?|blocks?|h)[._ \[]*\d+(?!\d)", re.IGNORECASE)
_VARIANTS = (Family.GEMM, Family.CONVOLUTION, Family.ATTENTION, Family.MEMSET)


def repetitions(trace: Trace, operations: I64) -> list[tuple[int, int]]:
    """(start, end) of each cycle on the busiest device; none where nothing repeats from end to end.

    ``operations`` are in order of their launch. Of several cycles that explain the sequence, the shortest that is a
    step is taken: it reads a result back, ends with an optimizer, or ends where the GPU waits.
    """
    order = _of_busiest_device(trace, operations)[:MAX_SEQUENCE_LENGTH]
    if not len(order) or _served_side_by_side(trace, order):
        return []
    names = np.unique(trace.events.name[order], return_inverse=True)[1].astype(np.int64)
    kinds = _kinds(trace, order)
    for cycles in cycles_in(names, kinds):
        if not _is_step(trace, order, cycles):
            continue
        begins = _cut_at_longest_wait(trace, order, kinds, cycles)
        if not (
            _are_layers(trace, len(begins))
            or _in_one_call(trace, order, begins)
            or _on_streams_of_their_own(trace, order, begins)
        ):
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
    return begins[found], int(median_of(np.diff(begins[found])))


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
    _, mine, counts = np.unique(lane, return_inverse=True, return_counts=True)
    some = np.flatnonzero(counts >= MIN_LAUNCH_SHARE * len(order))
    if len(some) < 2:
        return False
    names, name = np.unique(trace.events.name[order], return_inverse=True)
    theirs = np.isin(mine, some)
    cells = np.searchsorted(some, mine[theirs]) * len(names) + name[theirs]
    held = np.bincount(cells, minlength=len(some) * len(names)).reshape(len(some), len(names))
    held = held.astype(np.float64)
    size = np.sqrt((held * held).sum(axis=1))
    alike = np.triu(held @ held.T, 1) >= ALIKE_THREADS * np.outer(size, size)
    first = np.array([np.flatnonzero(mine == each)[[0, -1]] for each in some])
    together = (first[:, None, 0] < first[None, :, 1]) & (first[None, :, 0] < first[:, None, 1])
    return bool((alike & together).any())


def _on_streams_of_their_own(trace: Trace, order: I64, begins: I64) -> bool:
    """Whether no two cycles share a stream: the same work is handed to several streams, which is one step at most."""
    cycle = np.searchsorted(begins, np.arange(begins[0], len(order)), side="right")
    used = distinct_values(cycle.astype(np.int64) << 32 | trace.events.lane[order[begins[0] :]])
    return len(begins) > 1 and len(distinct_values(used & 0xFFFFFFFF)) == len(used)


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
        or of_kinds(kinds, EventKind.KERNEL, EventKind.GRAPH).sum() < MIN_KERNELS
    ):
        return False
    return (
        len(order) == cycles.length * len(cycles.begins) * cycles.explained
        or _is_one_launch(trace, order, cycles)
        or _waits_between(trace, order, cycles)
    )


def _in_nearly_every(wanted: BOOL, cycles: Cycles) -> bool:
    before = np.concatenate(([0], np.cumsum(wanted)))[cycles.begins]
    return float(np.mean(before[1:] > before[:-1])) >= NEARLY_ALL


def _is_one_launch(trace: Trace, order: I64, cycles: Cycles) -> bool:
    """Whether nearly each cycle whose launches are recorded is what one launch of a graph runs."""
    launch = trace.links.launch_of(order)
    changes = np.concatenate(([0], np.cumsum(launch[1:] != launch[:-1])))[cycles.begins]
    recorded = launch[cycles.begins[:-1]] >= 0
    return bool(recorded.any() and np.mean(np.diff(changes)[recorded] == 1) >= NEARLY_ALL)


def _waits_between(trace: Trace, order: I64, cycles: Cycles) -> bool:
    """Whether most idle time of a typical cycle lies at one place."""
    wait = _waits(trace, order)
    places = cycles.begins[:-1, None] + np.arange(cycles.length)
    usual = median_of(wait[np.minimum(places, len(order) - 1)], axis=0)
    return bool(usual.max() > 0 and usual.max() >= MAJORITY * usual.sum())


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
    least = round(NEARLY_ALL * length)
    shifts = np.arange(-_common(kinds, begins, -1, length), _common(kinds, begins[:-1], 1, length) + 1)
    complete = (begins[:, None] + shifts + least <= len(order)).sum(axis=0)
    wait = median_of(_waits(trace, order)[begins[:-1, None] + shifts], axis=0)
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
    return len(counts) > 1 and float(median_of(counts)) < MAJORITY * cycles


def _in_one_call(trace: Trace, order: I64, begins: I64) -> bool:
    """Whether one call launches all cycles: then they are what a module is made of, or the parameters of an optimizer.

    An optimizer that calls the model itself multiplies matrices.
    """
    launch = trace.links.launch_of(order[begins])
    calls = trace.events.of_kind(EventKind.PYTHON)
    calls = calls[named(trace, calls, _MODULE.search)]
    if not named(trace, order, lambda name: classify(name).family in _VARIANTS[:3]).any():
        regions = trace.events.of_kind(EventKind.REGION)
        calls = np.append(
            calls, regions[named(trace, regions, lambda name: name.startswith("Optimizer.step#"))]
        )
    if (launch < 0).any() or not len(calls):
        return False
    start, end = trace.events.start, trace.events.end
    whole = calls[(start[calls] <= start[launch].min()) & (end[calls] >= end[launch].max())]
    mine = trace.lanes[trace.events.lane[launch[0]]]
    threads = (trace.lanes[lane] for lane in trace.events.lane[whole].tolist())
    return any((each.process, each.thread) == (mine.process, mine.thread) for each in threads)
