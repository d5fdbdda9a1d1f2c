"""Links by flow events: how tools that write no correlation numbers say which call started which GPU operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.chrome.build.quarantine import Table
from parsers.chrome.decode.collect import Columns, Instant
from parsers.chrome.decode.times import INVALID
from parsers.model import GPU_WORK, EventKind
from parsers.model.builder import TraceBuilder

I64 = npt.NDArray[np.int64]
_BEGIN, _END = "s", "f"


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
