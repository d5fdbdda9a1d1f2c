"""What a log of torch.compile says of each function: how often it was compiled, why again, where its graph broke."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parsers.model import I64, EventKind, LaneKind, Trace, derived
from parsers.model.compilation import COMPILATIONS_TITLE, GRAPH_BREAK_AT, GRAPH_BREAKS_TITLE
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from parsers.model.results import Cell
from parsers.model.units import NS_PER_S

_RESUMED = regex(r"torch_dynamo_resume_in_(.+)_at_(\d{1,9})(?:_\d{1,9})?")


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """One function in the process that lost most by it.

    ``reasons`` for which it was compiled again, ``again_ns`` what these took where that is known; ``processes`` that
    compiled it again.
    """

    name: str
    place: str
    times: int
    reasons: tuple[str, ...]
    again_ns: int | None
    processes: int = 1

    @property
    def is_resumed(self) -> bool:
        """Whether it is what the compiler goes on with behind a broken graph, from that line on."""
        return _RESUMED.fullmatch(self.name) is not None

    @property
    def own_name(self) -> str:
        """The function as its author called it."""
        resumed = _RESUMED.fullmatch(self.name)
        return resumed[1] if resumed else self.name

    @property
    def shown(self) -> str:
        """ "step", or "step after line 20" for what the compiler goes on with behind a broken graph."""
        resumed = _RESUMED.fullmatch(self.name)
        return f"{resumed[1]} after line {resumed[2]}" if resumed else self.name

    @property
    def event_name(self) -> str:
        """What its compilations are called on the timeline."""
        return f"{self.name} ({self.place})" if self.place else self.name


@dataclass(frozen=True, slots=True)
class BrokenGraph:
    """One place at which graphs break; ``hint`` is the compiler's own."""

    place: str
    reason: str
    times: int
    hint: str


@derived
def compiled_functions(trace: Trace) -> tuple[CompiledFunction, ...]:
    """The functions of all logs; what took longest to compile again first, then what was most often."""
    of_logs: dict[tuple[str, str], list[CompiledFunction]] = {}
    for table in trace.tables:
        if table.title == COMPILATIONS_TITLE:
            rows: dict[tuple[str, str], list[tuple[str, float | None]]] = {}
            columns = (table.column(each) for each in ("function", "place", "took", "compiled again because"))
            for name, place, took, reason in zip(*columns, strict=True):
                seconds = took if isinstance(took, float) else None
                rows.setdefault((_text(name), _text(place)), []).append((_text(reason), seconds))
            for at, of_it in rows.items():
                of_logs.setdefault(at, []).append(_function(*at, of_it))
    worst = [
        replace(min(each, key=_weight), processes=sum(bool(one.reasons) for one in each))
        for each in of_logs.values()
    ]
    return tuple(sorted(worst, key=_weight))


def _weight(function: CompiledFunction) -> tuple[int, int]:
    """What took longest to compile again is least, then what was most often."""
    return (-(function.again_ns or 0), -len(function.reasons))


def _function(name: str, place: str, rows: list[tuple[str, float | None]]) -> CompiledFunction:
    again = [seconds for reason, seconds in rows if reason]
    known = [seconds for seconds in again if seconds is not None]
    return CompiledFunction(
        name,
        place,
        len(rows),
        tuple(reason for reason, _ in rows if reason),
        round(sum(known) * NS_PER_S) if known else None,
    )


@derived
def broken_graphs(trace: Trace) -> tuple[BrokenGraph, ...]:
    """The places of all logs, the most frequent first."""
    found: list[BrokenGraph] = []
    for table in trace.tables:
        if table.title == GRAPH_BREAKS_TITLE:
            columns = (table.column(each) for each in ("place", "reason", "times", "hint"))
            for place, reason, times, hint in zip(*columns, strict=True):
                count = round(times) if isinstance(times, float) else 1
                found.append(BrokenGraph(_text(place), _text(reason), count, _text(hint)))
    return tuple(sorted(found, key=lambda each: -each.times))


def failures(trace: Trace) -> tuple[str, ...]:
    """Why compilations failed, of all logs in their order."""
    tables = [table for table in trace.tables if table.title == COMPILATIONS_TITLE]
    return tuple(text for table in tables for each in table.column("failed because") if (text := _text(each)))


def compiling(trace: Trace) -> I64:
    """The compilations that have a duration, in table order."""
    events = _logged(trace)
    timed: I64 = events[trace.events.kind[events] != EventKind.MARK]
    return timed


def broken_at(trace: Trace, place: str) -> I64:
    """The marks of the breaks at a place, in table order."""
    events = _logged(trace)
    return events[named(trace, events, lambda name: name == f"{GRAPH_BREAK_AT}{place}")]


def _logged(trace: Trace) -> I64:
    lanes = np.array([lane.kind is LaneKind.COMPILATION for lane in trace.lanes], bool)
    return np.flatnonzero(lanes[trace.events.lane]) if lanes.any() else np.empty(0, np.int64)


def has_compiler_log(trace: Trace) -> bool:
    """Whether a log of torch.compile is there."""
    return any(table.title in (COMPILATIONS_TITLE, GRAPH_BREAKS_TITLE) for table in trace.tables)


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else ""
