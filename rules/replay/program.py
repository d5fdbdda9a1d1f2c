"""A recorded run, compiled so that it can be replayed often: sums and maxima between the points that wait."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import F64, I64, distinct_values, numbered_values
from parsers.model.late import dataclass
from rules.replay.device import DeviceNodes
from rules.replay.host import HostNodes
from rules.replay.overlay import Overlay
from rules.replay.spans import Span
from rules.replay.waits import Waits

MAX_PASSES = 200


class NoOrder(Exception):
    """What waits for what forms a circle: the recorded times contradict one another."""


def keys_in_order(key: I64, chains: I64, first: I64, second: I64, together: I64) -> I64:
    """Recorded times, moved later as far as needed so that whatever comes first has the smaller key.

    ``chains`` numbers the chain (stream or thread) of each instruction, ascending, whose members follow one another.
    ``second`` instructions come after ``first`` ones. Instructions with the same number in ``together`` (>= 0) get the
    same key. Raises NoOrder where no such keys exist.
    """
    key = key.copy()
    place = np.arange(len(key))
    begins = np.append(True, chains[1:] != chains[:-1]) if len(key) else np.empty(0, bool)
    edges = np.flatnonzero(begins)
    meeting = np.flatnonzero(together >= 0)
    for _ in range(MAX_PASSES):
        before = key.copy()
        key = _rising(key, place, edges)
        np.maximum.at(key, second, key[first] + 1)
        if len(meeting):
            latest = np.full(int(together.max()) + 1, np.iinfo(np.int64).min)
            np.maximum.at(latest, together[meeting], key[meeting])
            key[meeting] = latest[together[meeting]]
        if np.array_equal(before, key):
            return key
    raise NoOrder


def _rising(key: I64, place: I64, edges: I64) -> I64:
    """The keys with every chain strictly ascending."""
    found = key - place
    for start, end in zip(edges.tolist(), [*edges[1:].tolist(), len(key)], strict=True):
        np.maximum.accumulate(found[start:end], out=found[start:end])
    return found + place


NONE = -1
_GROUP, _KNOTTED, _WAIT, _MEETING = range(4)
NEVER = float("-inf")

# Kind; group or wait; stream or segment; launching segment or slot waited for; (slot, dependency)
# pairs waited for; slot that keeps the end; number of the collective.
Instruction = tuple[int, int, int, int, tuple[tuple[int, int], ...], int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What a replay gave: how long the steps take once they repeat (ns), and when everything of the last round ran.

    ``busy`` is for how long the GPU that has most to do works (ns). ``host`` are the starts of host nodes, ``start``
    and ``end`` those of operations, all in ns on the replay's own clock. ``first_end`` is when each span ended in the
    first round, which starts as recorded.
    """

    period: float
    busy: float
    first_end: F64
    host: F64
    start: F64
    end: F64


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """An overlay as the instructions read it, in ns: running sums of threads and streams, and lists of Python's.

    A thread's sums begin with it, a stream's with the first operation of all.
    """

    host_start: F64
    arrival: F64  # of each operation, beside the sum of what its stream does before it
    done: F64
    thread_before: F64
    thread_done: F64
    stream_before: F64
    stream_done: F64
    launched: list[float]  # of each group: its latest arrival
    group_before: list[float]
    group_done: list[float]
    group_extra: list[float]
    waits: list[bool]  # of each host node that waits
    wait_end: list[float]
    returned: list[float]
    recorded_end: list[float]
    carried: list[bool]
    follows: list[bool]
    left: list[float]  # of each dependency: how much of what it waits for may still run
    transfer: list[float]
    meets: list[bool]

    @classmethod
    def of(cls, program: Program, overlay: Overlay) -> _Columns:
        host, device, first, last = program.host, program.device, program.first, program.last
        host_end = np.cumsum(overlay.gap + overlay.cost)
        host_start = host_end - overlay.cost
        thread_edges: F64 = np.append(0.0, host_end)[host.first]
        busy = np.where(overlay.present, overlay.duration + overlay.extra, 0.0)
        done = np.cumsum(busy)
        before = done - busy
        arrival = np.where(overlay.present, host_start[device.launch] + device.latency - before, NEVER)
        return cls(
            host_start=host_start,
            arrival=arrival,
            done=done,
            thread_before=thread_edges[:-1],
            thread_done=thread_edges[1:] + overlay.tail,
            stream_before=before[program.stream_first],
            stream_done=done[program.stream_last],
            launched=np.maximum.reduceat(arrival, first).tolist() if len(first) else [],
            group_before=before[first].tolist(),
            group_done=done[last].tolist(),
            group_extra=overlay.extra[first].tolist(),
            waits=overlay.waits[program.waiting].tolist(),
            wait_end=host_end[program.waiting].tolist(),
            returned=program.waits.returns[program.waiting].tolist(),
            recorded_end=host.end[program.waiting].tolist(),
            carried=program.waits.carried[program.waiting].tolist(),
            follows=overlay.follows.tolist(),
            left=(device.left * (overlay.duration * overlay.present)[device.depends]).tolist(),
            transfer=overlay.transfer.tolist(),
            meets=overlay.meets.tolist(),
        )


@dataclass(slots=True, eq=False)
class _Clock:
    """How far a replay is, in ns beside the columns' sums: segments of threads, kept ends, streams, groups."""

    segment: list[float]
    slot: list[float]
    stream: list[float]
    group: list[float]  # when what a group waits for beside its launches was there


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Host nodes are cut into segments at every wait, streams into groups at every launch segment, dependency and wait.

    Between two cuts finish_i = max(finish_{i-1}, launch_i) + d_i is a running sum and a maximum (Daydream, ATC 2020,
    replays the same graph event by event); only cuts are visited one by one, in ``instructions``.
    """

    spans: tuple[Span, ...]
    host: HostNodes
    device: DeviceNodes
    waits: Waits
    waiting: I64  # host nodes that wait
    segment: I64  # of each host node: the one in which it starts
    first_segment: I64  # (threads + 1)
    group: I64  # of each operation
    first: I64  # first operation of each group
    last: I64
    stream_first: I64  # (streams): first operation
    stream_last: I64
    instructions: list[Instruction]
    slots: int
    met: tuple[I64, I64]  # operations of collectives, and the number of the collective of each
    meeting_members: list[int]  # how many take part in each

    @staticmethod
    def of(spans: tuple[Span, ...], host: HostNodes, device: DeviceNodes, waits: Waits) -> Program:
        """Raises NoOrder where the recorded times contradict one another."""
        waiting = np.flatnonzero(waits.target >= 0)
        segment, first_segment = _segments(host, waits)
        kept = distinct_values(np.concatenate((waits.target[waiting], device.depends)))
        group = _groups(device, segment, kept)
        first = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else group
        last = np.append(first[1:], len(group)) - 1 if len(group) else group
        stream_first = np.searchsorted(device.stream, np.arange(device.streams))
        stream_last = np.searchsorted(device.stream, np.arange(device.streams), side="right") - 1
        together = np.flatnonzero(device.meeting >= 0)
        meeting, number_of_each = numbered_values(device.meeting[together])
        order = _order(host, device, waits, waiting, segment, first_segment, group, first, last)
        slot_of = np.full(len(device) + 1, NONE, np.int64)
        slot_of[kept] = np.arange(len(kept))
        instructions: list[Instruction] = []
        needs: dict[int, list[tuple[int, int]]] = {}
        for number, (source, dependent) in enumerate(
            zip(device.depends.tolist(), device.dependent.tolist(), strict=True)
        ):
            needs.setdefault(int(group[dependent]), []).append((int(slot_of[source]), number))
        count = len(first)
        stream, launch_segment = device.stream[first].tolist(), segment[device.launch[first]].tolist()
        kept_slot = slot_of[last].tolist() if count else []
        meeting_of = device.meeting[first].tolist()
        number_of = {each: number for number, each in enumerate(meeting.tolist())}
        nothing: tuple[tuple[int, int], ...] = ()
        for each in order.tolist():
            if each >= count:
                wait = each - count
                node = int(waiting[wait])
                slot = int(slot_of[waits.target[node]])
                instructions.append((_WAIT, wait, int(segment[node]), slot, nothing, NONE, NONE))
                continue
            number = number_of.get(meeting_of[each], NONE)
            needed = tuple(needs.get(each, nothing))
            plain = not needed and kept_slot[each] < 0
            kind = _MEETING if number >= 0 else _GROUP if plain else _KNOTTED
            instructions.append(
                (kind, each, stream[each], launch_segment[each], needed, kept_slot[each], number)
            )
        return Program(
            spans,
            host,
            device,
            waits,
            waiting,
            segment,
            first_segment,
            group,
            first,
            last,
            stream_first,
            stream_last,
            instructions,
            len(kept),
            (together, number_of_each),
            np.bincount(number_of_each, minlength=len(meeting)).tolist(),
        )

    def recorded(self) -> Overlay:
        device = self.device
        duration = device.duration.copy()
        member, number = self.met
        transfer = np.full(len(self.meeting_members), np.inf)
        np.minimum.at(transfer, number, duration[member])
        duration[member] = transfer[number]
        return Overlay(
            gap=self.host.gap.copy(),
            cost=self.waits.cost.copy(),
            tail=self.host.tail.copy(),
            waits=self.waits.target >= 0,
            duration=duration,
            extra=device.extra.copy(),
            present=np.ones(len(device), bool),
            follows=np.ones(len(device.depends), bool),
            transfer=transfer,
            meets=np.ones(len(transfer), bool),
            steps=float(max((span.count for span in self.spans), default=1)),
        )

    def run(self, overlay: Overlay, rounds: int = 3, timeline: bool = True) -> Run:
        """Replay the spans ``rounds`` times, one after another; the period is the difference of the last two.

        Without ``timeline`` the result does not say when each call and operation ran.
        """
        columns = _Columns.of(self, overlay)
        clock = _Clock(
            segment=[0.0] * int(self.first_segment[-1]),
            slot=[NEVER] * (self.slots + 1),  # the last one takes what nobody waits for
            stream=(self.device.initial - columns.stream_before).tolist(),
            group=[NEVER] * len(self.first),
        )
        thread_start = np.array([float(self.spans[span].start) for span in self.host.span_of_thread.tolist()])
        lead_of = self._leads()
        ends = []
        for number in range(rounds):
            for segment, at in zip(
                self.first_segment[:-1].tolist(), (thread_start - columns.thread_before).tolist(), strict=True
            ):
                clock.segment[segment] = at
            self._round(columns, clock, first=number == 0)
            last = np.array([clock.segment[segment - 1] for segment in self.first_segment[1:].tolist()])
            thread_end = last + columns.thread_done
            stream_end = np.array(clock.stream) + columns.stream_done
            ends.append((thread_end, stream_end))
            thread_start = thread_end[lead_of]
            clock.stream = (stream_end - columns.stream_before).tolist()
        busy = self.busy(overlay)
        period, first_end = self._period(ends, busy), self._span_ends(*ends[0])
        if not timeline:
            none = np.empty(0)
            return Run(period, busy, first_end, none, none, none)
        segments = np.array(clock.segment)
        end = self._ends(columns.arrival, np.array(clock.group), segments, columns.done)
        start = end - np.where(overlay.present, overlay.duration, 0.0)
        return Run(period, busy, first_end, segments[self.segment] + columns.host_start, start, end)

    def _round(self, columns: _Columns, clock: _Clock, *, first: bool) -> None:
        """Move the clock through all instructions once; in the ``first`` round some wait for what was recorded before.

        Plans are made of hundreds of replays: numbers are compared, because ``max`` takes much longer.
        """
        segments, slots, streams, held = clock.segment, clock.slot, clock.stream, clock.group
        launched, before, done = columns.launched, columns.group_before, columns.group_done
        waits, wait_end, returned = columns.waits, columns.wait_end, columns.returned
        recorded_end, carried = columns.recorded_end, columns.carried
        follows, left_of = columns.follows, columns.left
        extra, transfer, meets = columns.group_extra, columns.transfer, columns.meets
        missing = self.meeting_members.copy()
        arrived = [NEVER] * len(missing)
        present: list[list[tuple[int, int, int]]] = [[] for _ in missing]
        for kind, index, place, source, needed, slot, meeting in self.instructions:
            if kind == _WAIT:  # in the segment ``place`` for the slot ``source``
                at = segments[place]
                if waits[index]:
                    ready = slots[source] + returned[index]
                    if first and carried[index]:
                        ready = recorded_end[index]
                    if (late := ready - wait_end[index]) > at:
                        at = late
                segments[place + 1] = at
                continue
            at = streams[place]
            for other, dependency in needed:
                if follows[dependency] and (ready := slots[other] - left_of[dependency] - before[index]) > at:
                    at = ready
            held[index] = at
            if (arrival := segments[source] + launched[index]) > at:
                at = arrival
            streams[place] = at
            if kind == _KNOTTED:
                slots[slot] = at + done[index]
            elif kind == _MEETING:
                arrived[meeting] = max(arrived[meeting], at + before[index] + extra[index])
                present[meeting].append((index, place, slot))
                missing[meeting] -= 1
                if not missing[meeting]:
                    end = arrived[meeting] + transfer[meeting]
                    for member, stream, its_slot in present[meeting]:
                        if meets[meeting]:
                            held[member] = streams[stream] = end - done[member]
                        slots[its_slot] = streams[stream] + done[member]

    def _leads(self) -> I64:
        """For each thread its rank's main thread."""
        leads = np.flatnonzero(self.host.leads)
        of_span = {int(self.host.span_of_thread[lead]): int(lead) for lead in leads}
        return np.array([of_span[span] for span in self.host.span_of_thread.tolist()], np.int64)

    def busy(self, overlay: Overlay) -> float:
        """For how long the GPU that has most to do works, ns: no replay of these columns is shorter.

        Its operations of one stream follow one another, and it runs no more kernels at once than when it was recorded.
        """
        device = self.device
        work = overlay.duration * overlay.present
        together, number = self.met
        work[together] = np.minimum(work[together], overlay.transfer[number])
        streams = np.bincount(device.stream, work)
        kernels = np.bincount(device.device, work * device.alone * overlay.turns)
        return float(max(np.max(streams, initial=0.0), np.max(kernels, initial=0.0)))

    def _period(self, ends: list[tuple[F64, F64]], busy: float) -> float:
        """Between the ends of the last two rounds."""
        if len(ends) < 2:
            return float("nan")
        threads = (ends[-1][0] - ends[-2][0])[self.host.leads]
        started = np.isfinite(ends[-2][1])
        streams = ends[-1][1][started] - ends[-2][1][started]
        return float(max(np.max(threads, initial=0.0), np.max(streams, initial=0.0), busy))

    def _span_ends(self, thread_end: F64, stream_end: F64) -> F64:
        """When each span ended: its main thread, or the last of its streams."""
        found = np.zeros(len(self.spans))
        leads = self.host.leads
        np.maximum.at(found, self.host.span_of_thread[leads], thread_end[leads])
        np.maximum.at(found, self.device.span[self.stream_first], stream_end)
        return found

    def _ends(self, arrival: F64, held: F64, bases: F64, done: F64) -> F64:
        """When each operation ends: the latest arrival so far in its group, or what the group was held up by."""
        if not len(self.first):
            return np.empty(0)
        segment = self.segment[self.device.launch[self.first]]
        launched = arrival + bases[segment][self.group]
        launched = np.where(np.isfinite(launched), launched, held[self.group])
        finite = np.isfinite(launched)
        low = float(launched[finite].min()) if finite.any() else 0.0
        apart = float(launched[finite].max()) - low + 1.0 if finite.any() else 1.0
        shifted = np.where(finite, launched - low, 0.0) + self.group * apart
        latest = np.maximum.accumulate(shifted) - self.group * apart + low
        return np.asarray(np.maximum(latest, held[self.group]) + done)


def _segments(host: HostNodes, waits: Waits) -> tuple[I64, I64]:
    """The segment in which each host node starts, and the first segment of each thread."""
    waiting = (waits.target >= 0).astype(np.int64)
    before = np.cumsum(waiting) - waiting
    segment = before + host.thread
    total = np.append(0, np.cumsum(waiting))[host.first]
    return segment, total + np.arange(host.threads + 1)


def _groups(device: DeviceNodes, segment: I64, kept: I64) -> I64:
    """The group of each operation, ascending."""
    if not len(device):
        return np.empty(0, np.int64)
    opens = np.zeros(len(device), bool)
    opens[device.dependent] = True
    opens |= device.meeting >= 0
    closes = np.zeros(len(device), bool)
    closes[kept] = True
    closes |= device.meeting >= 0
    base = segment[device.launch]
    new = opens[1:] | closes[:-1] | (base[1:] != base[:-1]) | (device.stream[1:] != device.stream[:-1])
    return np.concatenate(([0], np.cumsum(new)))


def _order(
    host: HostNodes,
    device: DeviceNodes,
    waits: Waits,
    waiting: I64,
    segment: I64,
    first_segment: I64,
    group: I64,
    first: I64,
    last: I64,
) -> I64:
    """Groups, then waits, as places in a valid order."""
    count = len(first)
    key = np.concatenate((device.end[last], host.end[waiting])).astype(np.int64)
    chains = np.concatenate((device.stream[first], device.streams + host.thread[waiting]))
    opened_by = np.full(int(first_segment[-1]) if len(first_segment) else 0, NONE, np.int64)
    opened_by[segment[waiting] + 1] = count + np.arange(len(waiting))
    opener = opened_by[segment[device.launch[first]]] if count else np.empty(0, np.int64)
    launched = np.flatnonzero(opener >= 0)
    here = np.flatnonzero(~waits.carried[waiting])
    before = np.concatenate((opener[launched], group[waits.target[waiting[here]]], group[device.depends]))
    after = np.concatenate((launched, count + here, group[device.dependent]))
    together = np.concatenate((device.meeting[first], np.full(len(waiting), NONE, np.int64)))
    key = keys_in_order(key, chains, before, after, together)
    return np.lexsort((np.arange(len(key)), key))
