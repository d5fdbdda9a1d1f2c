"""How collectives that flight recorders kept are spoken of: their number, when and where they were called, by whom."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.model import Trace
from parsers.model.units import clock_time, duration
from rules.analysis.ranks.flight_recorders import Called, is_open, recorded, recorded_ranks, stuck_collectives
from rules.findings.base import Evidence
from rules.wording.words import short_place

_MAX_LISTED = 4


def named_call(call: Called) -> str:
    """ "all_reduce #812", "send 0->1 #40": a collective or a message, and its number in its group."""
    peers = f" {call.peers}" if call.peers else ""
    return f"{call.collective}{peers} #{call.sequence:,}"


def place_of(call: Called) -> str:
    """ "train.py:21": where the program called it; empty where that was not recorded."""
    return short_place(call.place)


def at_place(call: Called) -> str:
    """The same in brackets, after other words."""
    return f" ({place_of(call)})" if call.place else ""


def when(trace: Trace, call: Called) -> str:
    """ "09:41:07 UTC", or how long after the start where the recording states no wall clock."""
    if trace.epoch_ns is None:
        return f"{duration(call.start)} after the start"
    return clock_time(trace.epoch_ns + call.start)


def ranks_in_words(ranks: Sequence[int]) -> str:
    """ "rank 2", "ranks 0, 1 and 3", "ranks 0 to 6", "24 ranks"; "this rank" for one that no file names."""
    ordered = sorted(set(ranks))
    if ordered == [-1]:
        return "this rank"
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"ranks {ordered[0]} to {ordered[-1]}"
    if len(ordered) > _MAX_LISTED:
        return f"{len(ordered)} ranks"
    *most, last = map(str, ordered)
    return f"ranks {', '.join(most)} and {last}"


def of_flight_recorders(trace: Trace) -> str:
    """One sentence on dumps that stand alone; empty without any, and beside a timeline."""
    count = len(recorded(trace))
    if not count or len(trace.gpu_operations):
        return ""
    open_calls = sum(is_open(each) for stuck in stuck_collectives(trace) for each in stuck.came)
    who = ranks_in_words(recorded_ranks(trace))
    ended = f"{open_calls:,} did not end" if open_calls else "all ended"
    return f"Flight recorder of {who}: {count:,} calls, {ended}"


def evidence_of_call(trace: Trace, call: Called) -> Evidence:
    """Where a call stands on the timeline."""
    table = trace.events
    start, end = int(table.start[call.event]), int(table.end[call.event])
    return Evidence(int(table.lane[call.event]), start, max(end, start + 1), named_call(call), call.event)
