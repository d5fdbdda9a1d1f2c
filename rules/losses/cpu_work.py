"""What lies inside a part of the time of a program on the CPU alone: its own lines, and operators."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from parsers.model.names.source_files import frame_parts
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.ascending_search import last_not_after
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, clip, contains, length, union
from rules.analysis.cpu.cpu_time import CpuTime, Shares, cpu_time
from rules.analysis.names.operators import DRAWS_FOR_DROPOUT, DROPOUTS, is_autograd_function
from rules.analysis.stretches.program_frames import is_program_frame, library_calls, program_frames
from rules.findings.base import Category, Evidence, Finding, Need, Rule
from rules.kernels.operator_roofs import kinds_of_calls, work_of
from rules.kernels.operator_work import PRODUCTS
from rules.source_lines import line_of_frame
from rules.terms import Culprit, CulpritKind
from rules.wording.words import Headline, Part, Words, listed, without_stacks

MAX_NAMED = 3
MIN_STEPS = 2  # of one, nobody knows whether it comes again
MIN_SHARE = 0.05  # of a step: each program has some of whatever the rules look for
MIN_NAMED = 0.05  # of the time that is looked into
MIN_SEEN = 0.03  # of a step, before interruptions are shared out: of less, too little is known
_ADDRESS = regex(r" object at 0x[0-9a-f]+")  # of one object of many of a class


def own_lines(time: CpuTime, within: Intervals | None = None) -> Shares:
    """The program's own functions by the time in which they are the deepest such; empty without stacks."""
    rows = [row for row, _ in program_frames(time.analysis, time.thread).rows]
    return time.shares(Innermost.of(time.trace, np.concatenate(rows)), within) if rows else []


def called_libraries(time: CpuTime, within: Intervals) -> Shares:
    """Calls of libraries by the program's own functions, by the time in them; empty without stacks."""
    table, found = time.trace.events, []
    own = {
        int(table.depth[row[0]]): (row, starts)
        for row, starts in program_frames(time.analysis, time.thread).rows
    }
    for row, starts in library_calls(time.analysis, time.thread).rows:
        callers, begins = own.get(int(table.depth[row[0]]) - 1, (row[:0], starts[:0]))
        if len(callers):
            caller = callers[np.maximum(last_not_after(begins, starts), 0)]
            inside = (table.start[caller] <= starts) & (table.end[caller] >= table.end[row])
            found.append(row[inside])
    return time.shares(Innermost.of(time.trace, np.concatenate(found)), within) if found else []


def longest_of(time: CpuTime, spans: Intervals, label: str) -> tuple[Evidence, ...]:
    """The longest of these intervals of the thread, the longest first, on the lane of its operators."""
    (start, end), lane = spans, int(time.trace.events.lane[time.activity.of_kind(EventKind.CPU_OP)[0]])
    order = np.argsort(start - end, kind="stable")[:MAX_NAMED].tolist()
    return tuple(Evidence(lane, int(start[each]), int(end[each]), label) for each in order)


def function_of(name: str) -> str:
    """A frame's function as a program calls it: "torch.serialization.save" of "torch/serialization.py(948): save"."""
    function, file, _ = frame_parts(name)
    module = file.removesuffix(".py").removesuffix("/__init__").replace("\\", "/").replace("/", ".")
    return f"{module}.{function}" if module else function


def named_shares(trace: Trace, shares: Shares, whole_ns: int) -> str:
    """ "aten::mm (57 %) and aten::add_ (8.1 %)" of the longest that are no small part of a time."""
    spent: Counter[str] = Counter()
    for event, ns in shares:
        spent[_ADDRESS.sub("", trace.name(event))] += ns
    told = [each for each in spent.most_common(MAX_NAMED) if each[1] >= MIN_NAMED * max(whole_ns, 1)]
    return listed([f"{name} ({percent(ns / whole_ns)})" for name, ns in told])


def inside(time: CpuTime, within: Intervals) -> str:
    """What runs in a part of the time, in sentences that follow others; empty where nothing is known."""
    trace, whole = time.trace, length(within)
    lines = named_shares(trace, own_lines(time, within), whole)
    operators = named_shares(trace, time.shares(time.activity.operators, within), whole)
    text = f" In the program's own code this time is spent in {lines}." if lines else ""
    return text + (f" The longest operators in it are {operators}." if operators else "")


def libraries(time: CpuTime, within: Intervals) -> str:
    """Functions of libraries that were innermost in much of a time, in a sentence; empty without any."""
    trace, shares = time.trace, time.shares(time.activity.functions, within)
    foreign = [each for each in shares if not is_program_frame(trace.name(each[0]))]
    told = named_shares(trace, foreign, length(within))
    return f" Libraries it runs: {told}." if told else ""


def culprit_of(trace: Trace, shares: Shares, otherwise: Culprit) -> Culprit:
    """The own function that holds most of some time, with its line, else another culprit."""
    if not shares:
        return otherwise
    name = trace.name(shares[0][0])
    return Culprit(CulpritKind.FRAME, name, at=line_of_frame(name, is_call=False))


@dataclass(frozen=True, slots=True)
class Products:
    """Matrix products of known shapes on the CPU, all together."""

    calls: int
    ns: int
    operations: float
    in_double: bool  # most of the time

    @property
    def per_second(self) -> float:
        return self.operations / max(self.ns, 1) * 1e9


def products_of(time: CpuTime) -> Products:
    """The products inside the window whose shapes were recorded."""
    trace, table = time.trace, time.trace.events
    events = time.activity.of_kind(EventKind.CPU_OP)
    inside = (table.start[events] >= time.window[0]) & (table.end[events] <= time.window[1])
    events = events[inside & named(trace, events, lambda name: name.partition("::")[2] in PRODUCTS)]
    rows, which, count = np.unique(
        kinds_of_calls(trace, events), axis=0, return_inverse=True, return_counts=True
    )
    spent = np.bincount(which.reshape(-1), table.duration[events], len(rows))
    found, doubles = Products(0, 0, 0.0, False), 0
    for (name, dims, types), calls, ns in zip(rows.tolist(), count.tolist(), spent.tolist(), strict=True):
        written = trace.strings[types] if types >= 0 else ""
        work = work_of(trace.strings[name], trace.strings[dims], written) if dims >= 0 else None
        if work is None or not work.operations:
            continue
        doubles += ns if '"double"' in written else 0
        found = Products(
            found.calls + calls, found.ns + int(ns), found.operations + calls * work.operations, False
        )
    return replace(found, in_double=2 * doubles > found.ns)


class CpuRule(Rule):
    """A rule that judges recordings of operators on the CPU in which no GPU worked."""

    category = Category.HOST_BOUND
    needs = frozenset({Need.CPU_EVENTS})
    steps_needed = MIN_STEPS
    of_the_cpu_alone = True

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        time = cpu_time(analysis)
        if time is not None and time.is_all and time.steps >= self.steps_needed:
            yield from self.of_steps(time)

    @abstractmethod
    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        """The findings of this rule in the time of the busiest thread."""

    def lost(
        self, time: CpuTime, ns: int, title: str, *, took: float | None = None, few: int = 0, **said: Any
    ) -> Finding:
        """A finding that could give back ``ns`` of the window; the title names the share that it ``took``.

        ``few`` steps hold it; 0 where most do.
        """
        share = (ns if took is None else took) / time.step_ns
        headline = Headline(title, Part(share, time.steps, few))
        return self.finding(
            time.analysis,
            ceiling_ns=ns,
            window_ns=time.step_ns,
            headline=headline,
            of_the_cpu_alone=True,
            **said,
        )


def gradients_of(time: CpuTime, forward: I64) -> I64:
    """The functions of autograd, of the outermost operators, for what these operators call."""
    trace, table = time.trace, time.trace.events
    functions = time.operators[named(trace, time.operators, is_autograd_function)]
    called = time.activity.of_kind(EventKind.CPU_OP)
    inside = contains(union(*table.spans(forward)), table.start[called])
    numbers = trace.attribute(Attribute.SEQUENCE, called[inside], -1)
    return functions[np.isin(trace.attribute(Attribute.SEQUENCE, functions, -1), numbers[numbers >= 0])]


def with_freeing(time: CpuTime, operators: I64) -> Intervals:
    """The time of outermost operators, and until the next where that is no longer: large tensors are freed in it.

    What is no longer needed takes about as long to give back as it took to make.
    """
    table = time.trace.events
    begins, until = table.spans(operators)
    follows = np.append(table.start[time.operators], time.window[1])
    follows = follows[np.searchsorted(follows, until)]
    return union(begins, np.where(follows - until <= until - begins, follows, until))


class CostlyWork(CpuRule):
    """A rule of operators, by their shapes, that do more than is needed."""

    needs = frozenset({Need.CPU_EVENTS, Need.SHAPES})

    def told_of(
        self, time: CpuTime, spans: Intervals, left: float, title: str, account: str, **said: Any
    ) -> Iterable[Finding]:
        """What is told of some time of which this part remains; nothing where the rest is a small part of a step."""
        spans = clip(spans, *time.window)
        took = time.without_recorder(spans)
        lost = round(took * (1 - left))
        if lost < MIN_SHARE * time.step_ns or not len(spans[0]):
            return
        first = int(np.searchsorted(time.trace.events.start[time.operators], spans[0][0]))
        name = time.trace.name(int(time.operators[min(first, len(time.operators) - 1)]))
        yield self.lost(
            time,
            lost,
            title,
            took=took,
            account=f"{account} That takes {duration(took / time.steps)} of the "
            f"{duration(time.step_ns / time.steps)} of a step.",
            culprit=line_or_operator(time, name, spans),
            evidence=longest_of(time, spans, name),
            confidence="medium",
            **said,
        )


def line_or_operator(time: CpuTime, operator: str, within: Intervals | None = None) -> Culprit:
    """The program's own line that holds most of some time, or else an operator."""
    return culprit_of(time.trace, own_lines(time, within), Culprit(CulpritKind.OPERATOR, operator))


def unknown_lines(trace: Trace, do_what: str) -> tuple[Words]:
    """That nobody knows which lines it is, where Python's stacks were not recorded."""
    return (
        without_stacks(trace, f"Which of your lines {do_what}: record again with Python stacks (--stacks)."),
    )


def active_dropouts(time: CpuTime) -> Intervals:
    """Where they run, in a recording without a function of a backward pass."""
    trace, table = time.trace, time.trace.events
    everywhere = table.of_kind(EventKind.CPU_OP)
    events = time.activity.of_kind(EventKind.CPU_OP)
    if named(trace, everywhere, is_autograd_function).any():
        events = events[:0]
    dropouts = events[named(trace, events, DROPOUTS.match)]
    draws = events[named(trace, events, DRAWS_FOR_DROPOUT.match)]
    around = Innermost.of(trace, dropouts).at(table.start[draws])
    found = distinct_values(around[around >= 0])
    return clip(union(*table.spans(found)), *time.window)
