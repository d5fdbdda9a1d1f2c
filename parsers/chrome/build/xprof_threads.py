"""Sorts the events of XProf's host threads, which have no categories, into lanes: frames, calls, runtime and ranges."""

from __future__ import annotations

import numpy as np

from parsers.chrome.build.lanes import Names
from parsers.chrome.build.quarantine import Table
from parsers.chrome.decode.categories import Where
from parsers.chrome.decode.collect import Columns
from parsers.model import GPU_WORK, Attribute, EventKind, LaneKind
from parsers.model.arrays import distinct_values
from parsers.model.events import of_kinds
from parsers.xprof.call_threads import PLACES, HostEvent, frame_name, host_events, owners_of_calls

_HOST = "/host:"
_STEPS = "Steps"


def claim_host_events(columns: Columns, names: Names, strings: list[str], table: Table) -> None:
    """Move the events of host threads to the lanes that their names and arguments tell, and steps to theirs.

    TensorFlow's operators are work of the CPU where no device has any; elsewhere most of them start that of a device.
    ``strings`` gets the names of frames and steps as the other recorders write them.
    """
    tracks = list(columns.tracks)
    on_host = np.array(
        [
            where is Where.THREAD
            and lane is LaneKind.OTHER
            and names.processes.get(pid, "").startswith(_HOST)
            for where, lane, pid, _ in tracks
        ],
        bool,
    )
    if not len(table.track):
        return
    mine = np.flatnonzero(on_host[table.track] & (table.kind == EventKind.OTHER))
    operations = {
        strings[name] for name in distinct_values(table.name[of_kinds(table.kind, *GPU_WORK)]).tolist()
    }
    distinct, which = np.unique(table.name[mine], return_inverse=True)
    kinds = host_events([strings[name] for name in distinct.tolist()], operations)[which]
    is_call = np.isin(mine, _having(table, Attribute.CORRELATION))
    kinds[is_call] = HostEvent.CALL
    of_tensorflow, _ = table.attributes.pop(Attribute.IS_EAGER, (np.empty(0, np.int64), None))
    if not operations:
        kinds[np.isin(mine, of_tensorflow)] = HostEvent.OPERATOR
    _give_back_calls(table, mine, kinds, is_call)
    for kind, (lane, event_kind) in PLACES.items():
        _move(columns, table, mine[kinds == kind], lane, event_kind)
    _rename_frames(strings, table)
    _steps(columns, strings, table)


def _give_back_calls(table: Table, events: np.ndarray, kinds: np.ndarray, is_call: np.ndarray) -> None:
    """Put calls that XProf keeps on a thread of their own back on the thread that made them."""
    start, track = table.start[events], table.track[events].astype(np.int64)
    is_work = np.isin(kinds, (HostEvent.RUNTIME, HostEvent.OPERATOR))
    owners = owners_of_calls(start, start + table.duration[events], track, is_call, is_work)
    if owners:
        moved = np.arange(int(track.max()) + 1)
        moved[list(owners)] = list(owners.values())
        table.track[events[is_call]] = moved[track[is_call]]


def _having(table: Table, which: Attribute) -> np.ndarray:
    events, values = table.attributes.get(which, (np.empty(0, np.int64), np.empty(0, np.int64)))
    return events[values > 0]


def _move(columns: Columns, table: Table, events: np.ndarray, lane: LaneKind, kind: EventKind) -> None:
    tracks = list(columns.tracks)
    target = np.arange(len(tracks), dtype=np.int32)
    for number in distinct_values(table.track[events]).tolist():
        where, _, pid, tid = tracks[number]
        target[number] = columns.tracks[where, lane, pid, None if lane is LaneKind.STEPS else tid]
    table.kind[events] = kind
    table.track[events] = target[table.track[events]]


def _rename_frames(strings: list[str], table: Table) -> None:
    frames = np.flatnonzero(of_kinds(table.kind, EventKind.PYTHON, EventKind.API))
    distinct, which = np.unique(table.name[frames], return_inverse=True)
    table.name[frames] = _added(strings, [frame_name(strings[name]) for name in distinct.tolist()])[which]


def _steps(columns: Columns, strings: list[str], table: Table) -> None:
    """Annotations that state a step's number, named with it."""
    events, numbers = table.attributes.pop(
        Attribute.STEP_NUMBER, (np.empty(0, np.int64), np.empty(0, np.int64))
    )
    annotated = table.kind[events] == EventKind.REGION
    events, numbers = events[annotated], numbers[annotated]
    texts = [
        f"{strings[name]} {number}"
        for name, number in zip(table.name[events].tolist(), numbers.tolist(), strict=True)
    ]
    table.name[events] = _added(strings, texts)
    _move(columns, table, events, LaneKind.STEPS, EventKind.STEP)


def _added(strings: list[str], texts: list[str]) -> np.ndarray:
    """The places of these texts among the strings, which they join."""
    first = len(strings)
    places = {text: first + index for index, text in enumerate(dict.fromkeys(texts))}
    strings += places
    return np.array([places[text] for text in texts], np.int32)
