"""What can be said about one event or one gap: place, times, who launched it, and what it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from parsers.model import Attribute, CopyKind, EventKind, LaneKind, MemoryKind, Trace
from parsers.model.late import dataclass
from parsers.model.names.devices import device_name
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, how_many, percent, rate, size
from rules.analysis.arithmetic.intervals import measure
from rules.analysis.idle.causes import Cause, IdleTable
from viewer.appearance.naming import plain_name, python_name
from viewer.timeline.kinds.base import nested_styles, style_of

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis

KIND_NAMES = {
    EventKind.OTHER: "event",
    EventKind.CPU_OP: "CPU operator",
    EventKind.PYTHON: "Python frame",
    EventKind.API: "CUDA call",
    EventKind.REGION: "annotated region",
    EventKind.STEP: "step",
    EventKind.MARK: "mark",
    EventKind.KERNEL: "GPU kernel",
    EventKind.MEMCPY: "copy",
    EventKind.MEMSET: "memset",
    EventKind.GRAPH: "CUDA graph",
    EventKind.GPU_SYNC: "synchronisation on the GPU",
    EventKind.GPU_REGION: "region on the GPU",
    EventKind.OVERHEAD: "profiler overhead",
    EventKind.OS_RUNTIME: "system call",
    EventKind.SAMPLE: "CPU sample",
    EventKind.SAMPLED_FRAME: "sampled call",
}
MAX_RELATED = 12
FIRST_OF_COLLECTIVE = 2  # exposed, and for whom it waited: before its launch, and the rest after it
MIN_SLACK_NS = 1_000  # clocks of CPU and GPU agree no better
_DIRECTIONS = {
    CopyKind.H2D.value: "host to device",
    CopyKind.D2H.value: "device to host",
    CopyKind.D2D.value: "device to device",
    CopyKind.H2H.value: "host to host",
    CopyKind.P2P.value: "GPU to GPU",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line; ``event`` is where a click leads, -1 for nowhere; ``whole`` is its text where that was shortened."""

    label: str
    text: str
    event: int = -1
    whole: str = ""


def fact_of_slack(ns: int) -> Fact:
    """How much later something could be."""
    none = "none: it is on the critical path"
    could = f"could be {duration(ns)} later without making a step longer"
    return Fact("Slack", could if ns >= MIN_SLACK_NS else none)


def _named(trace: Trace, label: str, event: int) -> Fact:
    return Fact(label, called(trace, event), event, trace.name(event))


def called(trace: Trace, event: int) -> str:
    """What panels call an event: a kernel without its arguments, a frame by its function."""
    name, kind = trace.name(event), trace.events.kind[event]
    return kernel_name(name) if kind == EventKind.KERNEL else python_name(plain_name(name))


def facts_of_event(trace: Trace, event: int, analysis: Analysis | None = None) -> list[Fact]:
    """Everything that the trace itself says about one event, and its analysis, where there is one."""
    events = trace.events
    start, end, kind = int(events.start[event]), int(events.end[event]), EventKind(int(events.kind[event]))
    lane = trace.lanes[events.lane[event]]
    where, _ = style_of(lane.kind).titles(lane, trace)
    where = where if lane.rank is None else f"{where}, rank {lane.rank}"
    facts = [
        Fact("Kind", KIND_NAMES[kind]),
        Fact("Lane", where),
        Fact("Start", f"{start / 1e6:,.6f} ms"),
        Fact("Duration", duration(end - start)),
    ]
    of_collective = (
        facts_of_collective(analysis, event) if analysis is not None and kind is EventKind.KERNEL else []
    )
    facts += of_collective[:FIRST_OF_COLLECTIVE]
    launch = int(trace.links.launch_of(np.array([event], np.int64))[0])
    if launch >= 0:
        facts.append(_named(trace, "Launched by", launch))
        facts.append(Fact("Launch to start", duration(max(start - int(events.start[launch]), 0))))
        facts += _around(trace, launch)
    else:
        operations = trace.links.operations_of(event)
        facts += [_named(trace, "Launched", operation) for operation in operations[:MAX_RELATED].tolist()]
        if len(operations) > MAX_RELATED:
            facts.append(Fact("", f"and {len(operations) - MAX_RELATED:,} more"))
        if lane.device is None:
            facts += _around(trace, event)
    return [*facts, *of_collective[FIRST_OF_COLLECTIVE:], *_size_facts(trace, event, end - start)]


def facts_of_collective(analysis: Analysis, event: int) -> list[Fact]:
    """How much of a collective nothing else covered, how long it waited, and for whom; empty for all other events."""
    from rules.analysis.ranks.recorded import ranks_of

    run = ranks_of(analysis).run
    meetings = run.meetings
    found = np.flatnonzero(run.columns.event[run.places] == event)
    if not len(found):
        return []
    place = int(found[0])
    instance, row = int(meetings.meeting[place]), int(meetings.row[place])
    start, end = int(meetings.start[place]), int(meetings.end[place])
    exposed = int(measure(run.alone(row), np.array([start]), np.array([end]))[0])
    transfer, last = int(meetings.transfer[instance]), int(meetings.row[meetings.last[instance]])
    waits = max(end - start - transfer, 0)
    told = duration(waits)
    if last != row and waits and run.rows[last].rank is not None:
        told += f" for rank {run.rows[last].rank}, the last one"
    return [
        Fact("Exposed", f"{duration(exposed)}, {percent(exposed / max(end - start, 1))} of it"),
        Fact("Waits", told),
        Fact("Transfer", duration(transfer)),
    ]


def as_text(title: str, facts: Sequence[Fact]) -> str:
    """Facts as lines that can be pasted."""
    return "\n".join([title, *(f"{fact.label}: {fact.whole or fact.text}" for fact in facts)])


def _size_facts(trace: Trace, event: int, length: int) -> list[Fact]:
    def number(which: Attribute) -> int:
        return int(trace.attribute(which, np.array([event], np.int64), -1)[0])

    facts = []
    moved = number(Attribute.BYTES)
    if moved >= 0:
        speed = f", {rate(moved / length * 1e9)}" if length > 0 and moved else ""
        facts.append(Fact("Size", size(moved) + speed))
    copy = number(Attribute.COPY_KIND)
    if copy > 0:
        ends = [number(Attribute.SOURCE_MEMORY), number(Attribute.TARGET_MEMORY)]
        named = " to ".join(MemoryKind(end).name.lower() for end in ends if end > 0)
        direction = _DIRECTIONS.get(copy, "unknown")
        facts.append(Fact("Direction", direction if named in ("", direction) else f"{direction} ({named})"))
    grid, block = (
        trace.text_attribute(Attribute.GRID_SHAPE, event),
        trace.text_attribute(Attribute.BLOCK_SHAPE, event),
    )
    if grid or block:
        facts.append(Fact("Grid, block", f"({grid})  ({block})"))
    collective = trace.text_attribute(Attribute.COLLECTIVE, event)
    if collective:
        group = trace.text_attribute(Attribute.GROUP, event)
        facts.append(Fact("Collective", collective + (f", group {group}" if group else "")))
    return facts


def _around(trace: Trace, event: int) -> list[Fact]:
    """The innermost operator and Python frame, and all regions, around an event on its thread."""
    at = int(trace.events.start[event])
    home = trace.lanes[trace.events.lane[event]]
    facts = []
    for style, nested in nested_styles():
        for index, lane in enumerate(trace.lanes):
            if lane.kind is style.kind and (lane.rank, lane.process, lane.thread) == (
                home.rank,
                home.process,
                home.thread,
            ):
                stack = [each for each in stack_at(trace, index, at) if each != event]
                chosen = stack if nested.every else stack[-1:]
                label = "Called by" if lane.kind is home.kind and not nested.every else nested.one
                facts += [_named(trace, label, each) for each in chosen[-MAX_RELATED:]]
    return facts


def stack_at(trace: Trace, lane: int, when: int) -> list[int]:
    """Events of one lane that are open at ``when``, outermost first."""
    found = []
    for row in trace.events.rows(lane).values():
        place = row.start + int(np.searchsorted(trace.events.start[row], when, side="right")) - 1
        if place >= row.start and trace.events.end[place] >= when:
            found.append(place)
    return found


def call_stack(trace: Trace, event: int) -> list[int]:
    """Python frames around an event, or around the call that launched it, outermost first."""
    launch = int(trace.links.launch_of(np.array([event], np.int64))[0])
    event = launch if launch >= 0 else event
    home = trace.lanes[trace.events.lane[event]]
    for index, lane in enumerate(trace.lanes):
        if lane.kind is LaneKind.PYTHON and (lane.rank, lane.process, lane.thread) == (
            home.rank,
            home.process,
            home.thread,
        ):
            return stack_at(trace, index, int(trace.events.start[event]))
    return []


def facts_of_gap(analysis: Analysis, row: int) -> list[Fact]:
    """Why the GPU was idle in one row of the idle table, and what ended it."""
    trace, idle = analysis.trace, analysis.idle
    start, end, cause = int(idle.start[row]), int(idle.end[row]), Cause(int(idle.cause[row]))
    who = device_name(trace, int(idle.device[row]))
    same = (idle.device == idle.device[row]) & (idle.cause == idle.cause[row])
    alike = same & (idle.culprit == idle.culprit[row])
    total = int((idle.end - idle.start)[alike].sum())
    facts = [
        Fact("Idle", f"{duration(end - start)} on {who}{_of_a_longer_gap(idle, row)}"),
        Fact("Cause", idle.label(cause)),
        Fact("Culprit", idle.culprit_of(row).text, int(idle.event[row])),
        Fact("Start", f"{start / 1e6:,.6f} ms"),
    ]
    following = int(idle.next_operation[row])
    if following >= 0:
        facts.append(_named(trace, "Ended by", following))
    count = int(alike.sum())
    share = percent(total / max(analysis.window_ns, 1))
    facts.append(
        Fact("Same culprit", f"{how_many(count, 'gap')}, {duration(total)}, {share} of the analysed time")
    )
    return facts


def _of_a_longer_gap(idle: IdleTable, row: int) -> str:
    """Says so where the rows before or after go on with the same cause: the timeline draws them as one gap."""
    first, last = row, row
    while first > 0 and _goes_on(idle, first - 1):
        first -= 1
    while last + 1 < len(idle) and _goes_on(idle, last):
        last += 1
    whole, part = (
        duration(int(idle.end[to] - idle.start[since])) for since, to in ((first, last), (row, row))
    )
    return f", part of {whole}" if whole != part else ""


def _goes_on(idle: IdleTable, row: int) -> bool:
    """Whether the next row continues this one: no pause, same device, same cause."""
    following = row + 1
    return bool(
        idle.end[row] == idle.start[following]
        and idle.device[row] == idle.device[following]
        and idle.cause[row] == idle.cause[following]
    )
