"""Communication between GPUs that no computation covers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from parsers.model import F64, I64, Attribute, EventKind, Trace
from parsers.model.arrays import median_of
from parsers.model.late import dataclass, regex
from parsers.model.names.devices import device_name
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, percent, rate, size
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, durations, length, measure, pairs, union
from rules.analysis.gpu.inside_window import operations
from rules.analysis.ranks.collectives import measured_bus_bandwidth
from rules.analysis.ranks.late import CollectiveRow, Ranks
from rules.analysis.ranks.recorded import RecordedRun, ranks_of
from rules.findings.base import (
    Category,
    Finding,
    Need,
    Remedy,
    Rule,
    Severity,
    remedy,
    rule,
    severity_of_once,
)
from rules.losses.lost_time import Extent, event_evidence, extent
from rules.remedies.communication import EQUAL_WORK, hidden_communication
from rules.terms import MAJORITY, MIN_SHARE, NOBODY, Culprit, CulpritKind
from rules.wording.late_ranks import late_names
from rules.wording.words import Headline, Words, a_step, counted, for_python, share

_SENT = regex(r"NIC (?P<adapter>.+) Bytes sent", re.IGNORECASE)
_PER_SECOND = "B/s"
_FEW_SAMPLES = 10  # in the time that is asked about: fewer say little about it


class Sent(NamedTuple):
    """What an adapter sent, bytes per second: on average in the time that was asked about, and at most."""

    adapter: str
    mean: float
    most: float


def busiest_adapter(trace: Trace, within: Intervals, rank: int | None) -> Sent | None:
    """The adapter of this rank's machine that sent most within these times; None where samples do not tell."""
    found = [
        sent
        for counter in trace.counters
        if counter.unit == _PER_SECOND
        and counter.rank in (None, rank)
        and (name := _SENT.fullmatch(counter.name))
        and (sent := _sent(name["adapter"], counter.time, counter.value, within))
    ]
    return max(found, key=lambda sent: sent.mean, default=None)


def _sent(adapter: str, time: I64, value: F64, within: Intervals) -> Sent | None:
    """A value holds until the next sample, so the last one holds for no time that is known."""
    held = measure(within, time[:-1], time[1:])
    if np.count_nonzero(held) < _FEW_SAMPLES or held.sum() < MAJORITY * length(within):
        return None
    return Sent(adapter, float(np.average(value[:-1], weights=held)), float(value.max()))


BEYOND_THE_OTHERS = 10  # times what the others usually take
START_UP_NS = 100_000_000  # a first collective that makes connections takes at least as long
MANY_OTHERS = 4  # collectives that tell what is usual
FEW_LARGE_BYTES = 200_000_000  # one message this large cannot start before nearly all gradients are there


@rule
class ExposedCommunication(Rule):
    id = "exposed-communication"
    category = Category.EXPOSED_COMMUNICATION
    needs = frozenset({Need.GPU_EVENTS, Need.COLLECTIVES})
    explanation = """
What it found
    Collectives (all-reduce, all-gather, reduce-scatter ...) run while the GPU computes nothing.

Why it costs time
    Communication is free as long as computation covers it. Exposed communication makes the step longer.

How it decides
    It takes the union of all communication kernels on a GPU and subtracts every moment in which another kernel ran.
    With several ranks, one of which is late, the late rank shows the transfers alone: anything the others expose
    beyond that is waiting, which is another finding. The rest, averaged over the GPUs, is the ceiling.

    One collective that takes half of this time and ten times as long as the others, in a recording whose steps do not
    repeat, is told as what it is, with little confidence; where not all ranks are open, also a single one, or one of
    two or three. It is start-up if it is the first one, takes 100 ms or more, sends no more than the others and
    hardly waits for another rank: then connections are made. What comes once is high only where it is most of the
    recording, and never where a rank is missing that may have come late; nor is communication that takes most of each
    step then. Waiting that is half of the communication,
    where each rank comes last at times, is told as that.

What to try
    Start the transfers earlier: several gradient buckets instead of one, reduction during the backward pass instead
    of after it, prefetching of the next layer's parameters (FSDP), half a batch that computes while the other half is
    transferred (experts, split layers), more micro-batches (pipelines). Send less: bf16 gradients, gradient
    accumulation with no_sync(). Use faster links.

When it is wrong
    In one rank's recording alone, waiting for another rank looks like communication. Open all ranks together. If some
    ranks of a group are missing, the finding says so.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        ranks = ranks_of(analysis)
        exposed = {
            device: analysis.budgets(device).exposed_communication_ns for device in analysis.active_devices
        }
        if not any(analysis.budgets(device).compute_ns for device in exposed):
            return  # nothing could hide it
        ceiling = ranks.transfers_alone if len(ranks.run.meetings.row) else max(exposed.values())
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        worst = (
            ranks.run.device(ranks.late[0])
            if ranks.late
            else max(exposed, key=lambda device: exposed[device])
        )
        events = _kernels(analysis, ranks, worst)
        alone = clip(analysis.time(worst).communication, *analysis.window)
        found_in = extent(analysis, alone, worst)
        where: dict[str, Any] = {
            "culprit": _culprit(trace, ranks, events),
            "device": worst,
            "evidence": event_evidence(trace, events),
            "intervals": pairs(alone),
            "unknown": (_cannot_tell(ranks),),
        }
        once = _one_long(analysis, ranks, events, length(alone))
        account = _explanation(analysis, ranks, worst, found_in.part(ceiling), once)
        if once is not None:
            yield self._one_long(analysis, once, found_in, account=account, **where)
            return
        advice = hidden_communication(analysis, worst).after(*_first_of_all(analysis, ranks, events, worst))
        yield self._every_step(analysis, ranks, ceiling, found_in, account=account, remedy=advice, **where)

    def _one_long(self, analysis: Analysis, once: _OneLong, found_in: Extent, **said: Any) -> Finding:
        """The one collective that takes most of the time, which says nothing about later steps."""
        severity = severity_of_once(once.ns, analysis.window_ns)
        if once.why is _Why.UNKNOWN and severity is Severity.HIGH:
            severity = Severity.MEDIUM
        what = "Start-up: the first {} is long" if once.why is _Why.FIRST else "One long {}"
        return self.finding(
            analysis,
            severity=severity,
            headline=Headline(what.format(once.kind), found_in.share(once.ns)),
            remedy=_AFTER_ONE_LONG[once.why],
            ceiling_ns=once.ns,
            of_recording=True,
            confidence="low",
            **said,
        )

    def _every_step(
        self,
        analysis: Analysis,
        ranks: Ranks[RecordedRun],
        ceiling: int,
        found_in: Extent,
        remedy: Remedy,
        **said: Any,
    ) -> Finding:
        """What the communication of a step leaves exposed: ``ceiling`` ns of the analysed time.

        Where most of a step is that, and a rank is missing that may have come late, nobody knows which of both it is.
        """
        known = _every_rank(ranks)
        unknown = not known and ceiling > MAJORITY * analysis.window_ns
        return self.finding(
            analysis,
            headline=Headline(matter(ranks.in_turn, ceiling), found_in.share(ceiling)),
            severity=Severity.MEDIUM if unknown else None,
            remedy=remedy.after(_OPEN_THE_OTHERS) if unknown else remedy,
            ceiling_ns=ceiling,
            confidence="high" if known else "low" if unknown else "medium",
            **said,
        )


def matter(in_turn_ns: int, exposed_ns: int) -> str:
    """What exposed communication is called: most of it may be waiting, now for this rank and now for that."""
    in_turn = in_turn_ns >= MAJORITY * exposed_ns
    return "Ranks wait for each other in turn" if in_turn else "Communication is not overlapped"


class _Why(Enum):
    """Why one collective is long."""

    UNKNOWN = (
        "these recordings alone do not say whether the network is slow, another rank comes late, which is not open, or "
        "it sends far more than others"
    )
    WAITS = (
        "it waits for a rank that starts later, sends far more than they do, or hands out what is sent once, such as "
        "the parameters"
    )
    FIRST = "it is the first one, when ranks make their connections and load code, and sends no more than the others"
    SENDS_MORE = "it hardly waits for another rank, so it sends far more than they do"


@dataclass(frozen=True, slots=True)
class _OneLong:
    """A collective that takes most of the exposed time, as no other does, in a recording without repeated steps."""

    kind: str
    ns: int
    usual_ns: int  # 0 without others
    why: _Why

    @property
    def text(self) -> str:
        others = f", and the others usually {duration(self.usual_ns)}" if self.usual_ns else ""
        return f" One {self.kind} takes {duration(self.ns)} of this{others}: {self.why.value}."


def _one_long(analysis: Analysis, ranks: Ranks[RecordedRun], events: I64, exposed_ns: int) -> _OneLong | None:
    trace, took = analysis.trace, durations(analysis.trace, events)
    if analysis.steps_in_window > 1 or not len(took):
        return None
    longest = int(took.argmax())
    ns, event = int(took[longest]), int(events[longest])
    usual = int(median_of(np.delete(took, longest))) if len(took) > 1 else 0
    if ns < MAJORITY * exposed_ns or ns < BEYOND_THE_OTHERS * usual:
        return None
    device = trace.lane_device[trace.events.lane[event]]
    rows = [row for row in ranks.run.meetings.with_collectives.tolist() if ranks.run.device(row) == device]
    waited = [
        length(clip(ranks.waits(row), trace.events.start[event], trace.events.end[event])) for row in rows
    ]
    size_of = trace.attribute(Attribute.MESSAGE_BYTES, events, 0)
    sends_more = len(took) > 1 and size_of[longest] > median_of(np.delete(size_of, longest))
    columns = ranks.run.columns
    first = trace.events.start[event] == columns.start[columns.device == device].min()
    if not rows or not _every_rank(ranks):
        why = _Why.UNKNOWN
    elif max(waited) >= MAJORITY * ns:
        why = _Why.WAITS
    elif first and not sends_more and ns >= START_UP_NS:
        why = _Why.FIRST
    else:
        why = _Why.SENDS_MORE
    if len(took) < MANY_OTHERS and why not in (_Why.UNKNOWN, _Why.FIRST):
        return None
    kind = trace.text_attribute(Attribute.COLLECTIVE, event) or "collective"
    return _OneLong(kind, ns, usual, why)


def _every_rank(ranks: Ranks[RecordedRun]) -> bool:
    """Whether those that meet in a collective are recorded: one rank alone does not show that it waits."""
    return len(ranks.run.meetings.row) > 0 and not ranks.unrecorded


_LATER_STEPS = remedy(
    "Record later steps, several of them: what happens once at the start says nothing about the others.",
    "If it is as long in later steps, record every rank and open all files together: they show which one comes last.",
    code=for_python("""schedule = torch.profiler.schedule(wait=5, warmup=2, active=5)   # on every rank"""),
)
_OPEN_THE_OTHERS = (
    "Open the recordings of all ranks of this group together: they show whether a rank comes late, or all of them wait "
    "for the network."
)
_OTHER_RANKS = _LATER_STEPS.after(_OPEN_THE_OTHERS)
_WARM_UP = remedy(
    "Nothing, for a run of many steps: it comes once. Run a few steps before the recording begins, so that it holds "
    "none of this.",
    "If the start itself takes too long: one small collective right after the start makes the connections early, and "
    "fewer groups make fewer of them.",
    code=for_python("""dist.all_reduce(torch.zeros(1, device="cuda"))   # makes the connections
torch.cuda.synchronize()"""),
)
_LESS_AT_ONCE = remedy(
    "Send less: keep split what each rank can use in parts, such as the logits of a large vocabulary, or use 16 bits.",
    "If it is sent only once, as parameters are at the start, record later steps: they say what a step costs.",
)


_AFTER_ONE_LONG = {
    _Why.UNKNOWN: _OTHER_RANKS,
    _Why.WAITS: _LATER_STEPS,
    _Why.FIRST: _WARM_UP,
    _Why.SENDS_MORE: _LESS_AT_ONCE,
}


def _kernels(analysis: Analysis, ranks: Ranks[RecordedRun], device: int) -> I64:
    columns = ranks.run.columns
    t0, t1 = analysis.window
    inside = (columns.device == device) & (columns.end > t0) & (columns.start < t1)
    return np.asarray(columns.event[inside], np.int64)


def _first_of_all(
    analysis: Analysis, ranks: Ranks[RecordedRun], events: I64, device: int
) -> tuple[Words, ...]:
    """What keeps everything else from helping: a shared stream, or ranks that get unequal work in turn."""
    advice: list[Words] = []
    if _on_the_compute_stream(analysis, events, device):
        advice.append(
            "Put communication on its own stream (async_op=True, and wait() where the result is needed): on the "
            "computation's stream, nothing can overlap with it."
        )
    if _taking_turns(analysis, ranks) >= MAJORITY * analysis.budgets(device).exposed_communication_ns:
        advice += EQUAL_WORK.advice
    return tuple(advice)


def _on_the_compute_stream(analysis: Analysis, events: I64, device: int) -> bool:
    """Whether most communication runs on the stream that computes most."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    kernels = kernels[~trace.communicates[kernels]]
    if not len(kernels) or not len(events):
        return False
    computed = np.bincount(trace.events.lane[kernels], durations(trace, kernels))
    sent = durations(trace, events)
    return bool(sent[trace.events.lane[events] == computed.argmax()].sum() > 0.5 * sent.sum())


def _taking_turns(analysis: Analysis, ranks: Ranks[RecordedRun]) -> int:
    """The mean time that ranks wait for each other where none of them is always the late one, ns."""
    return ranks.in_turn if share(analysis, ranks.in_turn) >= analysis.thresholds[MIN_SHARE] else 0


def _cannot_tell(ranks: Ranks[RecordedRun]) -> str:
    if not len(ranks.run.meetings.row):
        return "How much of it is waiting for another rank: record every rank and open all files together."
    if ranks.unrecorded:
        return f"How much of it is waiting for a missing rank: {ranks.unrecorded}."
    return ""


def _explanation(
    analysis: Analysis, ranks: Ranks[RecordedRun], worst: int, part: str, once: _OneLong | None
) -> str:
    trace = analysis.trace
    events = _kernels(analysis, ranks, worst)
    whole = length(clip(union(*trace.events.spans(events)), *analysis.window))
    exposed = analysis.budgets(worst).exposed_communication_ns
    what = (
        "Transfers between GPUs"
        if len(ranks.run.meetings.row) and not _taking_turns(analysis, ranks)
        else "Transfers between GPUs, waiting for other ranks included,"
    )
    text = (
        f"{what} are exposed for {part}. On "
        f"{device_name(trace, worst)}, computation covers "
        f"{percent(1 - exposed / max(whole, 1))} of the communication ({counted(analysis, len(events), 'collective')})."
    )
    if (rows := ranks.collectives) and once is None:
        text += f" The largest: {_described(rows[0])}."
        roof = measured_bus_bandwidth(analysis.trace, rows[0].collective, rows[0].bytes)
        if roof and (reached := rows[0].bus_bandwidth / roof):
            text += f" nccl-tests reached {rate(roof)} at this size; here it is {percent(reached)} of that."
    alone = clip(analysis.time(worst).communication, *analysis.window)
    if sent := busiest_adapter(trace, alone, trace.devices[worst].rank):
        text += (
            f" Meanwhile the busiest network adapter, {sent.adapter}, sends {rate(sent.mean)}, and at most "
            f"{rate(sent.most)} at any time of the recording."
        )
    if _few_large_at_the_end(analysis, ranks, worst):
        text += (
            " A few large messages run after the computation: all gradients travel in one bucket, so none can be "
            "sent while the backward pass is still computing."
        )
    waiting, lost = _taking_turns(analysis, ranks), ranks.lost_to_late
    if ranks.late and lost > waiting and share(analysis, lost) >= analysis.thresholds[MIN_SHARE]:
        most = a_step(ranks.most_waiting, analysis.steps_in_window)
        text += f" Time the others spend waiting for {late_names(ranks)}, up to {most}, is not counted here."
    elif waiting:
        text += f" A rank waits {a_step(waiting, analysis.steps_in_window)} for another to arrive; they take turns."
    if _on_the_compute_stream(analysis, events, worst):
        text += " The communication runs on the computation's stream, so nothing can overlap with it."
    return text + (once.text if once else "")


def _described(row: CollectiveRow) -> str:
    text = f"{row.collective} of {size(row.bytes)}" if row.bytes else row.collective
    text += f", {duration(row.transfer_ns)}"
    if row.algorithm_bandwidth:
        text += f", {rate(row.algorithm_bandwidth)} over {row.ranks} ranks (bus bandwidth {rate(row.bus_bandwidth)})"
    return text


def _few_large_at_the_end(analysis: Analysis, ranks: Ranks[RecordedRun], device: int) -> bool:
    columns = ranks.run.columns
    mine = columns.device == device
    count = int(mine.sum()) / max(
        len([step for step in analysis.steps if step.rank == analysis.trace.devices[device].rank]), 1
    )
    return count <= 4 and int(columns.bytes[mine].max(initial=0)) >= FEW_LARGE_BYTES


def _culprit(trace: Trace, ranks: Ranks[RecordedRun], events: I64) -> Culprit:
    if ranks.collectives:
        row = ranks.collectives[0]
        return Culprit(
            CulpritKind.COLLECTIVE, f"{row.collective} of {size(row.bytes)}" if row.bytes else row.collective
        )
    if not len(events):
        return NOBODY
    return Culprit(CulpritKind.COLLECTIVE, kernel_name(trace.name(int(events[0]))))
