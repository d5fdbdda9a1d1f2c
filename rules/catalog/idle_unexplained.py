"""Idle time whose cause this recording does not tell."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, EventKind
from parsers.model.arrays import median_of
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, measure, pairs, union
from rules.analysis.idle.attribution import (
    NO_LAUNCH,
    NO_LINKS,
    NO_OPERATION,
    QUEUED_BEHIND,
    QUEUED_COLLECTIVE,
    QUEUED_COPY,
    WAIT_IN_GRAPH,
)
from rules.analysis.idle.causes import Cause
from rules.analysis.names.regions import is_loader
from rules.findings.base import Category, Finding, Rule, remedy, rule
from rules.losses.lost_time import IdleTime
from rules.replay.replay import replay_of
from rules.terms import MAJORITY, Culprit, CulpritKind, Unit, threshold
from rules.wording.words import (
    Headline,
    Words,
    amounts,
    for_pytorch,
    listed,
    of_every_step,
    ours,
    part_of_step,
    share,
    shortened,
)

# names that are looked at, and of those that may be blamed: what more share has no culprit
LARGEST, BLAMED = (3, 2)
EARLY = 0.8  # of the idle time, in the first half: then it is of a start
ONE_CALL, BEYOND_THE_OTHERS = 0.8, 10  # of a name's time, and times what its other calls usually take


@dataclass(frozen=True, slots=True)
class Doing:
    """The operators of one name: ns of the idle time that they fill, of the longest, and of the others (0: none)."""

    name: str
    ns: int
    longest_ns: int
    usual_ns: int

    @property
    def is_first_use(self) -> bool:
        """Whether one call is nearly all of it, and the others show that it need not take as long."""
        alone = self.longest_ns >= ONE_CALL * self.ns
        return alone and 0 < BEYOND_THE_OTHERS * self.usual_ns <= self.longest_ns


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Operators on the CPU during some idle time: the part of it that they fill, and the largest by their names."""

    share: float
    largest: tuple[Doing, ...]
    blamed: tuple[Doing, ...]  # the first of them, where these few fill most of the idle time

    @property
    def blamed_ns(self) -> int:
        return sum(each.ns for each in self.blamed)


@dataclass(frozen=True, slots=True)
class Coalesced:
    """How much of some idle time (ns) sparse tensors are coalesced, and how often."""

    ns: int
    times: int


def _coalesced(waiting: IdleTime) -> Coalesced | None:
    """None where that is less than half of the idle time, or happens once."""
    table = waiting.analysis.trace.events
    operators = table.of_kind(EventKind.CPU_OP)
    operators = operators[named(waiting.analysis.trace, operators, _COALESCES.__eq__)]
    ns = _filled(waiting.analysis, operators, waiting.intervals)
    return Coalesced(ns, len(operators)) if len(operators) > 1 and ns >= MAJORITY * waiting.ns else None


def meanwhile(analysis: Analysis, idle: Intervals) -> Meanwhile | None:
    """What operators fill of some disjoint idle intervals; None if that is less than half of them."""
    table, whole = analysis.trace.events, length(idle)
    operators = table.of_kind(EventKind.CPU_OP)
    operators = operators[table.depth[operators] == 0]
    filled = _filled(analysis, operators, idle)
    if not whole or filled < MAJORITY * whole:
        return None
    overlap = measure(idle, *table.spans(operators))
    names = table.name[operators].astype(np.int64)
    spent = np.bincount(names, overlap)
    chosen = np.argsort(-spent, kind="stable")[:LARGEST]
    found = [_doing(analysis, operators[names == name], idle) for name in chosen[spent[chosen] > 0].tolist()]
    largest = sorted(found, key=lambda each: -each.ns)
    enough = [
        many for many in range(1, BLAMED + 1) if sum(each.ns for each in largest[:many]) >= MAJORITY * whole
    ]
    return Meanwhile(filled / whole, tuple(largest), tuple(largest[: enough[0]] if enough else ()))


def _doing(analysis: Analysis, operators: I64, idle: Intervals) -> Doing:
    table = analysis.trace.events
    inside = measure(idle, *table.spans(operators))
    others = np.delete(table.duration[operators], inside.argmax())
    return Doing(
        analysis.trace.name(int(operators[0])),
        _filled(analysis, operators, idle),
        int(inside.max()),
        int(median_of(others)) if len(others) else 0,
    )


def _filled(analysis: Analysis, operators: I64, idle: Intervals) -> int:
    table = analysis.trace.events
    return length(intersect(union(*table.spans(operators)), idle))


MIN_SHARE = threshold(
    "unexplained-idle",
    "idle time without a known cause is reported from this share of the analysed time",
    Unit.SHARE,
    0.05,
    least=0.001,
    most=0.9,
    source="less would not change the verdict",
)

UNEXPLAINED = (NO_LAUNCH, NO_LINKS, NO_OPERATION)
WAITED_FOR_SOMETHING = (QUEUED_BEHIND, QUEUED_COLLECTIVE, QUEUED_COPY, WAIT_IN_GRAPH)

_CODE = """with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
) as prof:                       # both: launches on the CPU, and what they started on the GPU
    train_step(batch)
"""


@rule
class IdleUnexplained(Rule):
    id = "idle-unexplained"
    category = Category.UNEXPLAINED_IDLE
    explanation = """
What it found
    The GPU idles, and the recording does not show who should have given it work.

Why it costs time
    Idle time is lost whatever its cause. Without the launch, no cause can be named and no ceiling given.

How it decides
    A gap is unexplained when the operation after it has no launch record: no CUDA calls were recorded, they were cut
    off at the start of the recording, or the operation ran inside an opaque CUDA graph. The same goes for an
    operation that had been launched long before and waited while nothing recorded ran. It is reported from
    {unexplained-idle} of the step. Where nothing repeats as steps and the first half of the time holds four fifths of
    it, that is said: then it is of a start. If operators of the CPU fill half of such gaps, as in TensorFlow's
    timelines, it names them; so it does where sparse tensors are coalesced in half of the time in which launched work
    waits. If only communication was recorded, nothing is reported: the computation was left out, and the GPU did not
    idle.

What to try
    Record CPU and GPU activity together, and start the recording one step earlier.

When it is wrong
    At the very start of a recording, missing launches are normal.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        if not any(analysis.budgets(device).compute_ns for device in analysis.active_devices) and len(
            analysis.trace.collective_kernels
        ):
            return
        yield from self._without_launch(analysis)
        yield from self._queued(analysis)

    def _queued(self, analysis: Analysis) -> Iterable[Finding]:
        waiting = IdleTime(analysis, Cause.DEPENDENCY, WAITED_FOR_SOMETHING)
        replay = replay_of(analysis)
        of_others = int(replay.others.waits.sum()) if replay.program is not None else 0
        ns = sum(each.ns for each in waiting.blames) - of_others
        if share(analysis, ns) < analysis.thresholds[MIN_SHARE]:
            return
        if coalesced := _coalesced(waiting):
            yield self._told(
                waiting,
                headline=Headline(
                    "Sparse tensors are coalesced again and again",
                    of_every_step(analysis, share(analysis, ns)),
                ),
                account=(
                    f"The GPU idles {part_of_step(analysis, ns)}, {percent(coalesced.ns / waiting.ns)} of it while the "
                    f"CPU is in {_COALESCES}: {coalesced.times} times it sorts the entries of a sparse tensor, and "
                    "waits for the GPU after each part of that."
                ),
                advice=_COALESCE_ONCE,
                unknown="Whether the entries change between these calls.",
                culprit=Culprit(CulpritKind.OPERATOR, _COALESCES),
            )
            return
        yield self._told(
            waiting,
            headline=Headline(
                "Queued work waits for something unrecorded", of_every_step(analysis, share(analysis, ns))
            ),
            account=(
                f"The GPU idles {part_of_step(analysis, ns)} although its next operation had already been launched: "
                "it waits for an event, another GPU or the host, but the recording does not show which. "
                f"{_in_graphs(waiting)}What waits: {amounts(analysis, waiting.by_next_operation, 3)}."
            ),
            advice=(
                "Record all processes and GPUs of the run together, without a filter, and look at what ends right "
                "before the waiting operation starts."
            ),
            unknown="What the queued operation waits for.",
        )

    def _without_launch(self, analysis: Analysis) -> Iterable[Finding]:
        waiting = IdleTime(analysis, Cause.UNKNOWN, UNEXPLAINED)
        unexplained = sum(each.ns for each in waiting.blames)
        if share(analysis, min(waiting.ns, unexplained)) < analysis.thresholds[MIN_SHARE]:
            return
        if doing := meanwhile(analysis, waiting.intervals):
            yield self._beside_operators(waiting, doing)
            return
        gap = _one_gap(waiting)
        early = "" if gap else _early(waiting)
        yield self._told(
            waiting,
            headline=Headline(
                f"Idle {'at first, ' if early else ''}for an unknown reason",
                of_every_step(analysis, share(analysis, waiting.worst_ns)),
            ),
            account=(
                f"The GPU idles {waiting.part}, and this recording does not show why: "
                f"{waiting.named(waiting.blames[:3])}." + (gap or early) + waiting.spread
            ),
            advice=(
                "Record CPU and GPU activity together, and start the recording one step earlier."
                if analysis.trace.capture.has_api_calls
                else ours("Record the CPU's calls together with what they start: $RecordATimeline.")
            ),
            unknown=ours("Anything about the CPU: record $CUDA API calls and operators."),
        )

    def _beside_operators(self, waiting: IdleTime, doing: Meanwhile) -> Finding:
        """Operators fill the gaps, though nothing tells which of them the GPU waits for."""
        analysis, blamed = waiting.analysis, doing.blamed
        loads = bool(blamed) and is_loader(blamed[0].name)
        once = next((each for each in blamed if each.is_first_use), None)
        names = listed([shortened(each.name, 40 // len(blamed)) for each in blamed])
        what = f"fetches data ({names})" if loads else f"runs {names or 'its operators'}"
        told = listed([f"{each.name} ({waiting.extent.told(each.ns)})" for each in doing.largest if each.ns])
        return self._told(
            waiting,
            headline=Headline(
                f"Idle while the CPU {what}",
                of_every_step(analysis, share(analysis, doing.blamed_ns or waiting.worst_ns)),
            ),
            account=(
                f"The GPU idles {waiting.part}. In {percent(doing.share)} of this time the CPU runs operators, most of "
                f"it {told}."
                + (_of_first_use(once) if once else "" if blamed else _small(waiting))
                + waiting.spread
            ),
            advice=_AHEAD
            if loads
            else _WARM_UP
            if once
            else f"Make {names} faster, or run what does not depend on the GPU before it is needed."
            if blamed
            else _FEWER,
            unknown="Which operator started which work of the GPU: the recording does not link them.",
            culprit=Culprit(CulpritKind.OPERATOR, blamed[0].name) if blamed else None,
        )

    def _told(
        self,
        waiting: IdleTime,
        headline: Headline,
        account: Words,
        advice: Words,
        unknown: Words,
        culprit: Culprit | None = None,
    ) -> Finding:
        """A finding without a ceiling: nobody knows what there is to gain."""
        return self.finding(
            waiting.analysis,
            headline=headline,
            account=account,
            remedy=remedy(advice, code=_AHEAD_CODE if advice is _AHEAD else _CODE + ours("$RecordItAll")),
            culprit=culprit or waiting.culprit,
            device=waiting.device,
            evidence=waiting.evidence(),
            intervals=pairs(waiting.intervals),
            unknown=(unknown,),
            confidence="low",
        )


_AHEAD = (
    "Let the input run ahead of the training: dataset.prefetch(tf.data.AUTOTUNE), and map(..., "
    "num_parallel_calls=tf.data.AUTOTUNE)."
)
_AHEAD_CODE = """dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(64)
dataset = dataset.prefetch(tf.data.AUTOTUNE)   # the next batches are made while the GPU works on this one"""
_COALESCES = "aten::_coalesce"
_COALESCE_ONCE = for_pytorch(
    "Coalesce it once, where it is made (matrix = matrix.coalesce()), and use the result in every product; or keep it "
    "by rows (matrix.to_sparse_csr()), which needs no sorting."
)
_WARM_UP = "Run a few warm-up steps before the recording begins."
_FEWER = "Give each operator more work (a larger batch), and let the compiler join small operators."


def _of_first_use(doing: Doing) -> str:
    return (
        f" One call of {doing.name} takes {duration(doing.longest_ns)}, and its other calls usually "
        f"{duration(doing.usual_ns)}: it does so once, when it is first used."
    )


def _small(waiting: IdleTime) -> str:
    gaps = len(waiting.rows)
    return (
        f" It idles {gaps:,} times, {duration(waiting.worst_ns // gaps)} each on average." if gaps > 1 else ""
    )


def _one_gap(waiting: IdleTime) -> str:
    """ " One gap of 78.7 ms is most of it." where that is so."""
    alone = len(waiting.by_device) < 2 and waiting.longest_ns > MAJORITY * waiting.ns
    return f" One gap of {duration(waiting.longest_ns)} is most of it." if alone else ""


def _early(waiting: IdleTime) -> str:
    """ " 88 % of it lies in the first half of this time; in the second half the GPU idles 8.6 %." without steps."""
    analysis = waiting.analysis
    start, end = analysis.window
    middle = (start + end) // 2
    if analysis.steps_in_window or len(waiting.by_device) > 1 or middle <= start:
        return ""
    first = length(clip(waiting.intervals, start, middle))
    if first < EARLY * waiting.ns:
        return ""
    later = (waiting.ns - first) / (end - middle)
    return (
        f" {percent(first / waiting.ns)} of it lies in the first half of this time; in the second half the GPU idles "
        f"{percent(later)}."
    )


def _in_graphs(waiting: IdleTime) -> str:
    """ "5 gaps in the launch of a graph, the longest 64.2 ms, are 64 %. "; empty without any."""
    inside = next((each for each in waiting.blames if each.culprit == WAIT_IN_GRAPH), None)
    if inside is None:
        return ""
    part = percent(share(waiting.analysis, inside.ns))
    gaps = f"{inside.count} gap{'s' if inside.count != 1 else ''}"
    return f"{gaps} in the launch of a graph, the longest {duration(waiting.longest_ns)}, are {part} of the time. "
