"""What flight recorders of several ranks tell together: which collective does not end, who never came, who differs.

Ranks of one process group number its collectives in the order in which they call them, so equal numbers of a group are
one collective (torch/distributed/flight_recorder). A recorder keeps only the last ones: what is older is not missing.
"""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, Attribute, CollectiveState, LaneKind, Trace, derived
from parsers.model.arrays import distinct_values, per_value, rows_by
from parsers.model.late import dataclass, regex

_ANY_AMOUNT_SENT = frozenset({"all_to_all", "scatter", "all_to_all_v_single", "all_gather_v", "barrier"})
_ANY_AMOUNT_RECEIVED = frozenset(
    {"all_to_all", "gather", "all_to_all_v_single", "reduce_scatter_v", "barrier"}
)


_PEERS = regex(r"(?P<left>\d{1,9})(?P<way>->|<-)(?P<right>\d{1,9})")


@dataclass(frozen=True, slots=True)
class Called:
    """One call of a collective: who made it, its number in the group, and where; ``event`` is its row in the table."""

    event: int
    rank: int
    group: str
    collective: str
    sequence: int
    start: int
    state: CollectiveState
    place: str
    peers: str = ""  # "0->1" of a message, as ranks of the group


@dataclass(frozen=True, slots=True)
class Absent:
    """A rank that did not come: its ``last`` call in the group, and where it ``waits`` in another one meanwhile."""

    rank: int
    last: Called
    waits: Called | None


@dataclass(frozen=True, slots=True)
class Stuck:
    """A collective that did not end: the ranks that ``came``, those that did not, and those without a dump."""

    came: tuple[Called, ...]
    absent: tuple[Absent, ...]
    unrecorded: tuple[int, ...]

    @property
    def first(self) -> Called:
        """The first that waits."""
        return min((each for each in self.came if is_open(each)), key=lambda each: each.start)

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that nothing else keeps; all that are absent where each waits in another collective."""
        return tuple(each.rank for each in self.absent if self.is_waited_for_elsewhere or each.waits is None)

    @property
    def is_waited_for_elsewhere(self) -> bool:
        """Whether all who are absent are kept by another collective: then that one is to be mended first."""
        return bool(self.absent) and all(each.waits is not None for each in self.absent)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One collective for which ranks called different things: ``odd`` are those that differ from most."""

    usual: tuple[Called, ...]
    odd: tuple[Called, ...]
    collectives: bool  # they are different collectives; else their sizes or types differ


def is_open(called: Called) -> bool:
    """Whether a call did not end."""
    return called.state is not CollectiveState.COMPLETED


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """One row for each collective that all of its group take part in, by (group, sequence, rank)."""

    event: I64
    rank: I64
    group: I64  # index into strings
    sequence: I64
    open: BOOL

    @staticmethod
    def of(trace: Trace) -> _Columns:
        events = recorded(trace)
        peers = trace.attribute(Attribute.PEERS, events, -1)
        alone = np.array([not text for text in trace.strings], bool)
        events = events[(peers < 0) | alone[np.maximum(peers, 0)]]
        rank = trace.lane_rank[trace.events.lane[events]]
        group = trace.attribute(Attribute.GROUP, events)
        sequence = trace.attribute(Attribute.COLLECTIVE_SEQUENCE, events)
        state = trace.attribute(Attribute.COLLECTIVE_STATE, events)
        order = np.lexsort((rank, sequence, group))
        completed = state[order] == CollectiveState.COMPLETED.value
        return _Columns(events[order], rank[order], group[order], sequence[order], ~completed)

    def taken(self, rows: I64) -> _Columns:
        return _Columns(
            self.event[rows], self.rank[rows], self.group[rows], self.sequence[rows], self.open[rows]
        )


def recorded(trace: Trace) -> I64:
    """The events of flight recorders, in table order."""
    kinds = np.array([lane.kind is LaneKind.FLIGHT_RECORDER for lane in trace.lanes], bool)
    return np.flatnonzero(kinds[trace.events.lane]) if len(trace.lanes) else np.empty(0, np.int64)


@derived
def columns_of(trace: Trace) -> _Columns:
    """The collectives of all recorders."""
    return _Columns.of(trace)


@derived
def recorded_ranks(trace: Trace) -> tuple[int, ...]:
    """The ranks whose dumps are there; -1 for one that does not say which it is."""
    return tuple(distinct_values(trace.lane_rank[trace.events.lane[recorded(trace)]]).tolist())


@derived
def stuck_collectives(trace: Trace) -> tuple[Stuck, ...]:
    """The first collective of each group that did not end; those first that wait for nobody who waits elsewhere."""
    columns = columns_of(trace)
    found = []
    for _, rows in rows_by(columns.group):
        if columns.open[rows].any():
            found.append(_stuck(trace, columns.taken(rows)))
    return tuple(sorted(found, key=lambda each: (each.is_waited_for_elsewhere, each.first.start)))


def _stuck(trace: Trace, group: _Columns) -> Stuck:
    sequence = int(group.sequence[group.open].min())
    last = {rank: int(rows[-1]) for rank, rows in rows_by(group.rank)}
    here = np.flatnonzero(group.sequence == sequence)
    absent = [row for row in last.values() if group.sequence[row] < sequence]
    members = _members(trace).get(called(trace, int(group.event[0])).group, ())
    return Stuck(
        tuple(called(trace, event) for event in group.event[here].tolist()),
        tuple(_absent(trace, int(group.event[row])) for row in absent),
        tuple(each for each in members if each not in recorded_ranks(trace)),
    )


def _absent(trace: Trace, last: int) -> Absent:
    of_last = called(trace, last)
    return Absent(of_last.rank, of_last, open_of_rank(trace).get(of_last.rank))


def _start(each: Called) -> int:
    return each.start


@derived
def open_of_rank(trace: Trace) -> dict[int, Called]:
    """The first collective or message of each rank that did not end."""
    events = recorded(trace)
    state = trace.attribute(Attribute.COLLECTIVE_STATE, events)
    events = events[state != CollectiveState.COMPLETED.value]
    found: dict[int, Called] = {}
    for rank, rows in rows_by(trace.lane_rank[trace.events.lane[events]]):
        first = events[rows[np.argmin(trace.events.start[events[rows]])]]
        found[rank] = called(trace, int(first))
    return found


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """A message that a rank waits with: to or from ``other``, and what that rank waits in meanwhile, if anything."""

    call: Called
    other: int
    other_waits: Called | None
    is_recorded: bool  # whether there is a dump of the other rank


@derived
def unmet_messages(trace: Trace) -> tuple[OpenMessage, ...]:
    """The first message of each rank that did not end and that the other rank has nothing open for."""
    events = recorded(trace)
    state = trace.attribute(Attribute.COLLECTIVE_STATE, events)
    peers = trace.attribute(Attribute.PEERS, events, -1)
    is_message = np.array([_PEERS.fullmatch(text) is not None for text in trace.strings], bool)
    events = events[
        (state != CollectiveState.COMPLETED.value) & (peers >= 0) & is_message[np.maximum(peers, 0)]
    ]
    events = trace.events.by_start(events)
    # the first of each rank to each other end: all of them are posted there, or none
    group, ends = (trace.attribute(each, events) for each in (Attribute.GROUP, Attribute.PEERS))
    keys = np.column_stack((trace.events.lane[events], group, ends))
    first = np.sort(np.unique(keys, axis=0, return_index=True)[1])
    calls = [called(trace, event) for event in events[first].tolist()]
    posted = {(each.rank, each.group, _pair(each)) for each in calls}
    found: dict[int, OpenMessage] = {}
    for each in calls:
        other = _other(trace, each)
        if each.rank not in found and (other, each.group, _pair(each)) not in posted:
            found[each.rank] = OpenMessage(
                each, other, open_of_rank(trace).get(other), other in recorded_ranks(trace)
            )
    return tuple(found.values())


def _pair(message: Called) -> tuple[int, int]:
    """Who sends to whom, as ranks of the group."""
    stated = _PEERS.fullmatch(message.peers)
    left, right = (int(stated["left"]), int(stated["right"])) if stated else (0, 0)
    return (left, right) if stated and stated["way"] == "->" else (right, left)


def _other(trace: Trace, message: Called) -> int:
    """The rank at the other end; ranks of a group are those of the run where nobody states its members."""
    sender, receiver = _pair(message)
    other = receiver if "->" in message.peers else sender
    members = _members(trace).get(message.group, ())
    return members[other] if other < len(members) else other


@derived
def _members(trace: Trace) -> dict[str, tuple[int, ...]]:
    """The ranks of each group as the dumps state them."""
    found: dict[str, tuple[int, ...]] = {}
    for rank in trace.ranks:
        for group in rank.groups:
            if group.ranks:
                found.setdefault(group.name, group.ranks)
    return found


@derived
def mismatches(trace: Trace) -> tuple[Mismatch, ...]:
    """The first collective of each group for which ranks called different things."""
    columns = columns_of(trace)
    signature, distinct = _signatures(trace, columns.event)
    found = []
    for _, rows in rows_by(columns.group):
        same = np.diff(columns.sequence[rows]) == 0
        differs = np.flatnonzero(same & (np.diff(signature[rows]) != 0))
        if not len(differs):
            continue
        here = rows[columns.sequence[rows] == columns.sequence[rows[differs[0]]]]
        kinds, counts = np.unique(signature[here], return_counts=True)
        usual = int(kinds[int(counts.argmax())])
        calls = [called(trace, event) for event in columns.event[here].tolist()]
        odd = signature[here] != usual
        found.append(
            Mismatch(
                tuple(each for each, is_odd in zip(calls, odd.tolist(), strict=True) if not is_odd),
                tuple(each for each, is_odd in zip(calls, odd.tolist(), strict=True) if is_odd),
                len({distinct[kind][0] for kind in kinds.tolist()}) > 1,
            )
        )
    return tuple(found)


def _signatures(trace: Trace, events: I64) -> tuple[I64, list[tuple[str, int, int, str]]]:
    """A number for what all ranks of a collective have to agree on, and what the numbers stand for."""
    stated = np.stack(
        [
            trace.attribute(Attribute.COLLECTIVE, events),
            trace.attribute(Attribute.SENT_ELEMENTS, events),
            trace.attribute(Attribute.RECEIVED_ELEMENTS, events),
            trace.attribute(Attribute.MESSAGE_DTYPE, events),
        ],
        axis=1,
    )
    numbers: dict[tuple[str, int, int, str], int] = {}

    def number_of(row: list[int]) -> int:
        name, sent, received, dtype = row
        collective = trace.strings[name]
        key = (
            collective,
            0 if collective in _ANY_AMOUNT_SENT else sent,
            0 if collective in _ANY_AMOUNT_RECEIVED else received,
            trace.strings[dtype],
        )
        return numbers.setdefault(key, len(numbers))

    return per_value(stated, number_of), list(numbers)


def called(trace: Trace, event: int) -> Called:
    """One event of a flight recorder."""
    one = np.array([event], np.int64)
    return Called(
        event,
        int(trace.lane_rank[trace.events.lane[event]]),
        trace.text_attribute(Attribute.GROUP, event),
        trace.text_attribute(Attribute.COLLECTIVE, event),
        int(trace.attribute(Attribute.COLLECTIVE_SEQUENCE, one)[0]),
        int(trace.events.start[event]),
        CollectiveState(int(trace.attribute(Attribute.COLLECTIVE_STATE, one)[0])),
        trace.text_attribute(Attribute.CALLED_FROM, event),
        trace.text_attribute(Attribute.PEERS, event),
    )
