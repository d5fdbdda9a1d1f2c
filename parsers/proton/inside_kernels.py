"""Parts of a kernel that its author marked, warp by warp: what Proton's instrumentation measures."""

from __future__ import annotations

import re

import numpy as np

from parsers.model import I32, I64, Effect, EventKind, Lane, LaneKind
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.names.kernels import block_name
from parsers.model.nesting import lowest_free_rows
from parsers.proton.records import ProtonEvents

_BLOCK = regex(r"^(?P<kernel>.*) Core(?P<unit>\d{1,6}) CTA(?P<block>\d{1,10})$", re.DOTALL)
_WARP = regex(r"^warp (\d{1,6})\b")
IN_CYCLES = "Parts of kernels are measured in clock cycles, each drawn as 1 ns."


def add_parts(builder: TraceBuilder, events: ProtonEvents) -> I64:
    """Add them on a lane for each warp of each multiprocessor, and return which of the events were."""
    places = [_place(*track) for track in events.tracks]
    known = np.array([place is not None for place in places] or [False], bool)
    mine = np.flatnonzero(known[events.track])
    if not len(mine):
        return mine
    # In the file the parts of one warp of one launch stand together.
    track = events.track[mine]
    firsts = np.flatnonzero(np.concatenate(([True], track[1:] != track[:-1])))
    start = np.minimum.reduceat(events.start[mine], firsts)
    end = np.maximum.reduceat(events.end[mine], firsts)
    found = [places[each] for each in track[firsts].tolist()]
    whole = [each for each in found if each is not None]
    lane = _lanes(builder, [(unit, warp) for _, unit, _, warp in whole], start, end)
    title = np.array([builder.string(block_name(kernel, block)) for kernel, _, block, _ in whole], np.int32)
    names = np.array([builder.string(name) for name in events.names], np.int32)
    builder.quality.read(len(whole) + len(mine))
    builder.add(start, end, title, lane, EventKind.OTHER)
    of_life = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(mine))))
    builder.add(
        events.start[mine], events.end[mine], names[events.name[mine]], lane[of_life], EventKind.OTHER
    )
    if events.in_cycles:
        builder.quality.note("cycles", Effect.NOTED, IN_CYCLES)
    return mine


def _lanes(builder: TraceBuilder, where: list[tuple[int, int]], start: I64, end: I64) -> I32:
    """A lane for each warp; more of them where blocks are on one multiprocessor at the same time."""
    lane = np.empty(len(where), np.int32)
    units = np.array(where, np.int64)
    order = np.lexsort((start, units[:, 1], units[:, 0]))
    edges = np.flatnonzero(np.concatenate(([True], (np.diff(units[order], axis=0) != 0).any(axis=1), [True])))
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        mine = order[first:last]
        unit, warp = units[mine[0]].tolist()
        for row, which in zip(lowest_free_rows(start[mine], end[mine]).tolist(), mine.tolist(), strict=True):
            beside = f" ({row + 1})" if row else ""
            name = f"SM {unit}, warp {warp}{beside}"
            lane[which] = builder.lane(Lane(LaneKind.INSIDE_KERNEL, name, process=unit, thread=warp))
    return lane


def _place(process: str | int, thread: str | int) -> tuple[str, int, int, int] | None:
    """Kernel, multiprocessor, block and warp of a track; None for any other."""
    block = _BLOCK.match(process) if isinstance(process, str) else None
    warp = _WARP.match(thread) if isinstance(thread, str) else None
    if block is None or warp is None:
        return None
    return block["kernel"], int(block["unit"]), int(block["block"]), int(warp[1])
