"""Where sampled threads spent their time, by the deepest frame of the user's own code."""

from __future__ import annotations

from collections import Counter

import numpy as np

from parsers.model import BOOL, I64, EventKind, LaneKind, Trace, derived
from parsers.model.arrays import Array, distinct_values
from parsers.model.late import dataclass
from parsers.model.names.per_name import distinct, named
from parsers.model.names.source_files import (
    IMPORTER,
    NO_FOLDERS,
    frame_parts,
    is_address,
    is_own_frame,
    programs_packages,
)
from parsers.model.quality import FEW_SAMPLES, OF_OPERATORS, WITHOUT_TIMES
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.names.operators import spins, waits_for_others
from rules.analysis.stretches.program_frames import program_script
from rules.terms import MAJORITY

MIN_SAMPLES = 100


@dataclass(frozen=True, slots=True)
class OwnFrame:
    """One function: time in which it is the deepest own frame, its costliest line, what runs below it.

    Of a function that is not the user's: time in which it is the innermost one, and no own frame is around it.
    """

    function: str
    file: str
    line: int  # 0 where it is not known
    ns: int
    below: str  # the function that is innermost most often but for itself; empty where there is none
    below_ns: int
    longest: int  # an event
    below_file: str = ""

    @property
    def waits(self) -> bool:
        """Whether most of it is waiting for another thread or process, in it or in what it calls."""
        if self.below and self.below_ns >= MAJORITY * self.ns:
            return waits_for_others(self.below, self.below_file)
        return waits_for_others(self.function, self.file)


@dataclass(frozen=True, slots=True)
class OwnTime:
    """Sampled time of all threads in ns, the part without any own frame, and own functions, the costliest first.

    ``foreign`` are the functions of libraries and the system that hold the part without any own frame; ``libraries``
    those that are innermost below own ones, whichever these are. ``spinning_ns`` is time of threads that wait without
    sleeping, ``importing_ns`` that of importing modules, without functions that these call meanwhile.
    ``of_operators`` says that it is the time of PyTorch's operators, on the CPU or on the GPU; ``few`` is the number of
    samples where that is too small for shares of the time, else 0. Where they state no times it is not ``timed``.
    """

    sampled_ns: int
    foreign_ns: int
    frames: tuple[OwnFrame, ...]
    foreign: tuple[OwnFrame, ...]
    libraries: tuple[OwnFrame, ...] = ()
    spinning_ns: int = 0
    importing_ns: int = 0
    of_operators: bool = False
    few: int = 0
    timed: bool = True

    @property
    def without_helpers_ns(self) -> int:
        """Without threads that wait and never reach the program's own functions, as those of a pool do."""
        return self.sampled_ns - sum(each.ns for each in self.foreign if each.waits)


def sampled(trace: Trace) -> I64:
    """The calls of sampled stacks, in table order."""
    lanes = np.array([lane.kind is LaneKind.SAMPLED_STACKS for lane in trace.lanes], bool)
    return np.flatnonzero(lanes[trace.events.lane]) if lanes.any() else np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class MostSampled:
    """The function that most samples are in, and its share of all."""

    function: str
    share: float


@derived
def most_sampled(trace: Trace) -> MostSampled | None:
    """Of samples that are moments, as Nsight Systems takes them; None for few, or where most are without a name."""
    names = trace.events.name[trace.events.kind == EventKind.SAMPLE]
    if len(names) < MIN_SAMPLES:
        return None
    found, count = np.unique(names, return_counts=True)
    first = int(count.argmax())
    function = trace.strings[found[first]]
    if is_address(function) or function.startswith("("):
        return None
    return MostSampled(function, float(count[first] / len(names)))


@derived
def own_time(trace: Trace) -> OwnTime:
    """The sampled time of a trace by own functions."""
    events = sampled(trace)
    packages = programs_packages(trace.strings[each] for each in distinct(trace.events.name[events]).tolist())
    script = program_script(trace) if any(each.kind == NO_FOLDERS for each in trace.quality.notes) else None
    own = named(
        trace,
        events,
        lambda name: (
            (is_own_frame(name) and (script is None or frame_parts(name)[1] == script))
            or (packages is not None and packages.search(name) is not None)
        ),
    )
    if not len(events):
        return OwnTime(0, 0, (), ())
    imports = named(trace, events, lambda name: frame_parts(name)[1].startswith(IMPORTER))
    lane, event, leaf, length, importer = _stretches(trace, events, own, imports)
    name = trace.events.name
    is_module = named(trace, np.maximum(event, 0), lambda name: frame_parts(name)[0] == "<module>")
    importing = int(length[(importer >= 0) & ((event < 0) | is_module)].sum())
    mine = np.where(event >= 0, name[np.maximum(event, 0)], -1)
    rows, first, which = np.unique(
        np.stack([lane, mine, name[leaf]], axis=1), axis=0, return_index=True, return_inverse=True
    )
    total = np.bincount(which.reshape(-1), length, len(rows)).astype(np.int64)
    # names of the deepest own frame (-1) and of the innermost one
    spent: Counter[tuple[int, int]] = Counter()
    longest: dict[int, tuple[int, int]] = {}
    examples = np.where(event[first] >= 0, event[first], leaf[first]).tolist()
    for (_, deepest, innermost), ns, example in zip(rows.tolist(), total.tolist(), examples, strict=True):
        spent[deepest, innermost] += ns
        told = deepest if deepest >= 0 else innermost
        longest[told] = max(longest.get(told, (0, -1)), (ns, example))
    frames = _frames(trace, {pair: ns for pair, ns in spent.items() if pair[0] >= 0}, longest)
    outside = {(inner, inner): ns for (deepest, inner), ns in spent.items() if deepest < 0}
    foreign = _frames(trace, outside, longest)
    inner: Counter[int] = Counter()
    for (deepest, innermost), ns in spent.items():
        if deepest >= 0 and innermost != deepest:
            inner[innermost] += ns
    libraries = _frames(trace, {(name, name): ns for name, ns in inner.items()}, longest)
    spinning = _spinning_ns(trace, events)
    notes = {each.kind: each.count for each in trace.quality.notes}
    return OwnTime(
        sum(spent.values()),
        sum(outside.values()),
        frames,
        foreign,
        libraries,
        spinning,
        importing,
        OF_OPERATORS in notes,
        notes.get(FEW_SAMPLES, 0),
        WITHOUT_TIMES not in notes,
    )


def _spinning_ns(trace: Trace, events: I64) -> int:
    """Time in the function that threads call to wait without sleeping; of several around each other, the longest."""
    found = events[named(trace, events, lambda name: spins(frame_parts(name)[0]))]
    times = np.bincount(trace.events.name[found], trace.events.duration[found], 1)
    return int(times.max())


def _stretches(
    trace: Trace, events: I64, own: BOOL, imports: BOOL
) -> tuple[Array, Array, Array, Array, Array]:
    """For each stretch in which a thread was in one function: its lane, the own event or -1, the innermost one, its ns.

    And the deepest event of Python's importer around it, or -1.

    All lanes are looked at in one go: each has its own part of an axis on which moments are numbered.
    """
    table = trace.events
    moments = distinct_values(np.concatenate(table.spans(events)))
    begin = table.lane[events].astype(np.int64) * len(moments)
    start = begin + np.searchsorted(moments, table.start[events])
    end = begin + np.searchsorted(moments, table.end[events])
    innermost = Innermost.nested(start, end, events)
    deepest, importer = (
        Innermost.nested(start[those], end[those], events[those]).at(innermost.edges)
        for those in (own, imports)
    )
    lane, moment = np.divmod(innermost.edges, len(moments))
    length = np.diff(moments[moment], append=0)
    is_open = innermost.event >= 0
    return lane[is_open], deepest[is_open], innermost.event[is_open], length[is_open], importer[is_open]


def _frames(
    trace: Trace, spent: dict[tuple[int, int], int], longest: dict[int, tuple[int, int]]
) -> tuple[OwnFrame, ...]:
    """Functions, whose lines are added up."""
    parts = {name: frame_parts(trace.strings[name]) for pair in spent for name in pair}
    lines: dict[tuple[str, str], Counter[int]] = {}
    below: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for (own, leaf), ns in spent.items():
        function, file, _ = parts[own]
        lines.setdefault((function, file), Counter())[own] += ns
        inner, of_file, _ = parts[leaf]
        is_itself = (inner, of_file) == (function, file)
        if not is_itself:
            below.setdefault((function, file), Counter())[inner, of_file] += ns
    found = []
    for (function, file), by_line in lines.items():
        name = by_line.most_common(1)[0][0]
        (inner, of_file), ns = below.get((function, file), Counter({("", ""): 0})).most_common(1)[0]
        event = longest.get(name, (0, -1))[1]
        found.append(OwnFrame(function, file, parts[name][2], by_line.total(), inner, ns, event, of_file))
    return tuple(sorted(found, key=lambda each: -each.ns))
