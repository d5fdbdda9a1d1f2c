"""A recorded run, compiled so that it can be replayed often: sums and maxima between the points that wait."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import F64, I64
from parsers.model.late.dataclass import dataclass
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

    ``host`` are the starts of host nodes, ``start`` and ``end`` those of operations, all in ns on
    the replay's own clock. ``first_end`` is when each span ended in the
    first round, which starts as recorded.
    """

    period: float
    first_end: F64
    host: F64
    start: F64
    end: F64


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
        kept = np.unique(np.concatenate((waits.target[waiting], device.depends)))
        group = _groups(device, segment, kept)
        first = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else group
        last = np.append(first[1:], len(group)) - 1 if len(group) else group
        stream_first = np.searchsorted(device.stream, np.arange(device.streams))
        stream_last = np.searchsorted(device.stream, np.arange(device.streams), side="right") - 1
        together = np.flatnonzero(device.meeting >= 0)
        meeting, number_of_each = np.unique(device.meeting[together], return_inverse=True)
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
        host, device = self.host, self.device
        host_end = np.cumsum(overlay.gap + overlay.cost)
        host_start = host_end - overlay.cost
        busy = np.where(overlay.present, overlay.duration + device.extra, 0.0)
        done = np.cumsum(busy)
        before = done - busy
        arrival = np.where(overlay.present, host_start[device.launch] + device.latency - before, NEVER)
        most = np.maximum.reduceat(arrival, self.first).tolist() if len(self.first) else []
        group_before, group_done = before[self.first].tolist(), done[self.last].tolist()
        node = self.waiting
        returned, wait_end = self.waits.returns[node].tolist(), host_end[node].tolist()
        waits, recorded_end = overlay.waits[node].tolist(), host.end[node].tolist()
        carried = self.waits.carried[node].tolist()
        follows = overlay.follows.tolist()
        left_of = (device.left * (overlay.duration * overlay.present)[device.depends]).tolist()
        meeting_extra = device.extra[self.first].tolist()
        transfer, meets = overlay.transfer.tolist(), overlay.meets.tolist()
        begin: F64 = np.append(0.0, host_end)[host.first[:-1]]
        whole: F64 = np.append(0.0, host_end)[host.first[1:]] - begin + overlay.tail
        stream_before, stream_done = before[self.stream_first], done[self.stream_last]
        bases = [0.0] * int(self.first_segment[-1])
        slots = [NEVER] * (self.slots + 1)  # the last one takes what nobody waits for
        thread_start = np.array([float(self.spans[span].start) for span in host.span_of_thread.tolist()])
        lead_of = self._leads()
        reached = (device.initial - stream_before).tolist()
        span_ends = []
        held = [NEVER] * len(self.first)
        instructions, members = self.instructions, self.meeting_members
        for number_of_round in range(rounds):
            for thread, at in enumerate((thread_start - begin).tolist()):
                bases[int(self.first_segment[thread])] = at
            arrived = [NEVER] * len(members)
            left = members.copy()
            waiting: list[list[tuple[int, int, int]]] = [[] for _ in members]
            for kind, index, stream, segment, needed, slot, number in instructions:
                if kind == _WAIT:  # stream: its segment, segment: the slot that it waits for
                    base = bases[stream]
                    if waits[index]:
                        late = slots[segment] + returned[index] - wait_end[index]
                        if not number_of_round and carried[index]:
                            late = recorded_end[index] - wait_end[index]
                        if late > base:
                            base = late
                    bases[stream + 1] = base
                    continue
                at = reached[stream]
                for source, dependency in needed:
                    if follows[dependency]:
                        ready = slots[source] - left_of[dependency] - group_before[index]
                        if ready > at:
                            at = ready
                held[index] = at
                launched = bases[segment] + most[index]
                if launched > at:
                    at = launched
                reached[stream] = at
                if kind == _GROUP:
                    continue
                if kind == _KNOTTED:
                    slots[slot] = at + group_done[index]
                    continue
                here = at + group_before[index] + meeting_extra[index]
                if here > arrived[number]:
                    arrived[number] = here
                waiting[number].append((index, stream, slot))
                left[number] -= 1
                if not left[number]:
                    end = arrived[number] + transfer[number]
                    for each, its_stream, its_slot in waiting[number]:
                        if meets[number]:
                            held[each] = reached[its_stream] = end - group_done[each]
                        slots[its_slot] = reached[its_stream] + group_done[each]
            last = np.array([bases[segment - 1] for segment in self.first_segment[1:].tolist()])
            thread_end = last + begin + whole
            stream_end = np.array(reached) + stream_done
            span_ends.append((thread_end, stream_end))
            thread_start = thread_end[lead_of]
            reached = (stream_end - stream_before).tolist()
        end_of_span = self._span_ends(*span_ends[0])
        if not timeline:
            none = np.empty(0)
            return Run(self._period(span_ends, overlay), end_of_span, none, none, none)
        of_node: F64 = np.array(bases)[self.segment]
        end = self._ends(arrival, np.array(held), np.array(bases), done)
        start = end - np.where(overlay.present, overlay.duration, 0.0)
        return Run(self._period(span_ends, overlay), end_of_span, of_node + host_start, start, end)

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

    def _period(self, ends: list[tuple[F64, F64]], overlay: Overlay) -> float:
        """Between the ends of the last two rounds."""
        if len(ends) < 2:
            return float("nan")
        threads = (ends[-1][0] - ends[-2][0])[self.host.leads]
        started = np.isfinite(ends[-2][1])
        streams = ends[-1][1][started] - ends[-2][1][started]
        return float(max(np.max(threads, initial=0.0), np.max(streams, initial=0.0), self.busy(overlay)))

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
