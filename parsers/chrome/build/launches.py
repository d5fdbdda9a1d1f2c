"""Links GPU operations to the calls that launched them: by correlation numbers, or by arrows where tools write none."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.chrome.build.quarantine import Table
from parsers.chrome.decode.collect import Columns, Instant
from parsers.chrome.decode.times import INVALID
from parsers.model import GPU_WORK, Attribute, EventKind
from parsers.model.builder import TraceBuilder
from parsers.model.names.calls import WORK_CALLS, Call, call_of
from parsers.model.names.per_name import judged

I64 = npt.NDArray[np.int64]
_NOTHING = np.empty(0, np.int64)
_BEGIN, _END = "s", "f"


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
    calls = kind[events] == EventKind.API
    work = np.isin(kind[events], GPU_WORK)
    if not calls.any() or not work.any():
        return _NOTHING, _NOTHING
    launch, number = events[calls], correlation[calls]
    call = judged(name[launch], builder.strings, call_of)
    order = np.lexsort((start[launch], duration[launch], ~np.isin(call, WORK_CALLS), number))
    launch, number, call = launch[order], number[order], call[order]
    first = np.concatenate(([True], number[1:] != number[:-1]))
    launch, number, call = launch[first], number[first], call[first]
    operation, wanted = events[work], correlation[work]
    place = np.minimum(np.searchsorted(number, wanted), len(number) - 1)
    found = number[place] == wanted
    in_graph = operation[found][call[place[found]] == Call.GRAPH_LAUNCH]
    operation, launch = operation[found], launch[place[found]]
    builder.link(operation, launch)
    stated = builder.stated(Attribute.GRAPH_NODE)
    builder.attribute(Attribute.GRAPH_NODE, in_graph[~np.isin(in_graph, stated)], 1)
    return operation, launch


def link_by_arrows(
    columns: Columns, threads: dict[int, tuple[Any, Any]], table: Table, builder: TraceBuilder, linked: I64
) -> None:
    """State the launch of every operation at whose start an arrow from a call ends; ``linked`` have one already.

    ``threads`` tells the recorded process and thread of each track. An arrow belongs to the innermost event around it.
    """
    begun: dict[Any, Instant] = {}
    pairs: list[tuple[Instant, Instant]] = []
    for each in sorted(columns.arrows, key=lambda each: (each.phase != _BEGIN, each.start)):
        key = (each.category, each.name, repr(each.id))
        if each.start == INVALID:
            continue
        if each.phase == _BEGIN:
            begun[key] = each
        elif each.phase == _END and key in begun:
            pairs.append((begun[key], each))
    if not pairs:
        return
    places = _Places(threads, table)
    launch = places.around([begin for begin, _ in pairs], np.array([EventKind.API]))
    operation = places.around([end for _, end in pairs], np.array(GPU_WORK))
    good = (launch >= 0) & (operation >= 0) & ~np.isin(operation, linked)
    builder.link(operation[good], launch[good])


class _Places:
    """Finds the event that an arrow touches."""

    def __init__(self, threads: dict[int, tuple[Any, Any]], table: Table) -> None:
        self._table = table
        self._tracks: dict[tuple[Any, Any], list[int]] = {}
        for track, thread in threads.items():
            self._tracks.setdefault(thread, []).append(track)

    def around(self, arrows: list[Instant], kinds: npt.NDArray[Any]) -> I64:
        """The latest-starting event of these kinds around each arrow, on its thread; -1: none."""
        found = np.full(len(arrows), -1, np.int64)
        by_thread: dict[tuple[Any, Any], list[int]] = {}
        for index, each in enumerate(arrows):
            by_thread.setdefault((each.pid, each.tid), []).append(index)
        table = self._table
        right_kind = np.isin(table.kind, kinds)
        for thread, indices in by_thread.items():
            events = np.flatnonzero(right_kind & np.isin(table.track, self._tracks.get(thread, [])))
            if not len(events):
                continue
            events = events[np.argsort(table.start[events], kind="stable")]
            when = np.array([arrows[index].start for index in indices], np.int64)
            place = np.searchsorted(table.start[events], when, side="right") - 1
            candidate = events[np.maximum(place, 0)]
            touches = (place >= 0) & (table.start[candidate] + table.duration[candidate] >= when)
            found[np.array(indices)[touches]] = candidate[touches]
        return found
