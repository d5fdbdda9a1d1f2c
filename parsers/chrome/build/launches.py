"""Links GPU operations to the calls that launched them: by correlation numbers, or by arrows where tools write none."""

from __future__ import annotations

from typing import Any

import numpy as np

from parsers.chrome.build.quarantine import Table
from parsers.chrome.decode.collect import Columns, Instant
from parsers.chrome.decode.times import INVALID
from parsers.model import GPU_WORK, I64, Array, Attribute, EventKind
from parsers.model.arrays import last_of_group, place_if_there
from parsers.model.builder import TraceBuilder
from parsers.model.events import of_kinds
from parsers.model.names.calls import WORK_CALLS, Call, call_of
from parsers.model.names.per_name import judged

_NOTHING = np.empty(0, np.int64)
_BEGIN, _STEP, _END = "s", "t", "f"


def link_launches(builder: TraceBuilder, table: Table) -> tuple[I64, I64]:
    """State the launch of every operation whose correlation a call has.

    Of several calls with one number, the one named after a launch wins, then the shortest (the innermost).
    Operations that share a graph launch get ``GRAPH_NODE`` unless the recording numbers the nodes itself.
    Returns the linked operations and their launches.
    """
    events, correlation = table.attributes.get(Attribute.CORRELATION, (_NOTHING, _NOTHING))
    name, kind, start, duration = table.name, table.kind, table.start, table.duration
    used = correlation != 0
    events, correlation = events[used], correlation[used]
    calls = of_kinds(kind[events], EventKind.API)
    work = of_kinds(kind[events], *GPU_WORK)
    if not calls.any() or not work.any():
        return _NOTHING, _NOTHING
    launch, number = events[calls], correlation[calls]
    call = judged(name[launch], builder.strings, call_of)
    order = np.argsort(number, kind="stable")
    if np.any(number[order[1:]] == number[order[:-1]]):
        order = np.lexsort((start[launch], duration[launch], ~of_kinds(call, *WORK_CALLS), number))
    launch, number, call = launch[order], number[order], call[order]
    first = np.concatenate(([True], number[1:] != number[:-1]))
    launch, number, call = launch[first], number[first], call[first]
    operation, wanted = events[work], correlation[work]
    place = place_if_there(wanted, number)
    found = number[place] == wanted
    in_graph = operation[found][of_kinds(call[place[found]], Call.GRAPH_LAUNCH)]
    operation, launch = operation[found], launch[place[found]]
    builder.link(operation, launch)
    stated = builder.stated(Attribute.GRAPH_NODE)
    builder.attribute(Attribute.GRAPH_NODE, in_graph[~np.isin(in_graph, stated)], 1)
    return operation, launch


def link_by_arrows(
    columns: Columns,
    threads: dict[int, tuple[Any, Any]],
    table: Table,
    builder: TraceBuilder,
    linked: I64,
    any_process: bool,
) -> None:
    """State the launch of every operation at whose start an arrow from a call ends; ``linked`` have one already.

    ``threads`` tells the recorded process and thread of each track. An arrow belongs to the innermost event around it;
    with ``any_process``, one of a process without events to the only thread of its number. rocprof ends arrows with a
    step.
    """
    begun: dict[Any, Instant] = {}
    pairs: list[tuple[Instant, Instant]] = []
    ends = _END if any(each.phase == _END for each in columns.arrows) else _STEP
    for each in sorted(columns.arrows, key=lambda each: (each.phase != _BEGIN, each.start)):
        key = (each.category, each.name, repr(each.id))
        if each.start == INVALID:
            continue
        if each.phase == _BEGIN:
            begun[key] = each
        elif each.phase == ends and key in begun:
            pairs.append((begun[key], each))
    if not pairs:
        return
    places = _Places(threads, table, any_process)
    launch = places.around([begin for begin, _ in pairs], np.array([EventKind.API]))
    operation = places.around([end for _, end in pairs], np.array(GPU_WORK))
    good = (launch >= 0) & (operation >= 0) & ~np.isin(operation, linked)
    builder.link(operation[good], launch[good])


class _Places:
    """Finds the event that an arrow touches."""

    def __init__(self, threads: dict[int, tuple[Any, Any]], table: Table, any_process: bool) -> None:
        self._table = table
        self._numbers: dict[tuple[Any, Any], int] = {}
        threads = {track: (_plain(process), _plain(thread)) for track, (process, thread) in threads.items()}
        self._processes = {process for process, _ in threads.values()}
        self._thread: dict[
            Any, tuple[Any, Any] | None
        ] = {}  # by its number; None where several processes have it
        for pair in dict.fromkeys(threads.values()) if any_process else ():
            self._thread[pair[1]] = pair if pair[1] not in self._thread else None
        self._thread_of_track = np.full(max(threads, default=-1) + 1, -1, np.int64)
        for track, thread in threads.items():
            self._thread_of_track[track] = self._numbers.setdefault(thread, len(self._numbers))

    def around(self, arrows: list[Instant], kinds: Array) -> I64:
        """The latest-starting event of these kinds around each arrow, on its thread; -1: none."""
        table = self._table
        events = np.flatnonzero(np.isin(table.kind, kinds) & (table.track < len(self._thread_of_track)))
        thread = self._thread_of_track[table.track[events]]
        events, thread = events[thread >= 0], thread[thread >= 0]
        keys = [(_plain(each.pid), _plain(each.tid)) for each in arrows]
        known = self._numbers
        mine = np.array([known[key] if key in known else self._of_thread(*key) for key in keys], np.int64)
        when = np.array([each.start for each in arrows], np.int64)
        if not len(events):
            return np.full(len(arrows), -1, np.int64)
        order = np.lexsort((table.start[events], thread))
        events, thread = events[order], thread[order]
        place = last_of_group(thread, table.start[events], mine, when)
        candidate = events[np.maximum(place, 0)]
        touches = (place >= 0) & (mine >= 0) & (thread[np.maximum(place, 0)] == mine)
        touches &= table.start[candidate] + table.duration[candidate] >= when
        return np.where(touches, candidate, -1)

    def _of_thread(self, process: Any, thread: Any) -> int:
        sole = None if process in self._processes else self._thread.get(thread)
        return -1 if sole is None else self._numbers[sole]


def _plain(number: Any) -> Any:
    """A process or thread as a number: some write those of events as text, and those of arrows not."""
    return int(number) if isinstance(number, str) and number.isdecimal() and len(number) < 20 else number
