"""The idle time of one cause inside the analysed window: how much, where, by which culprits, and the finding of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from parsers.model import I64, Trace
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import WORK_CALLS
from parsers.model.names.devices import device_name
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, durations, measure, pairs, union
from rules.analysis.idle.attribution import BETWEEN_NODES
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category, Evidence, Finding, Rule, Severity
from rules.remedies.remedy import Remedy
from rules.terms import MAJORITY, NEARLY_ALL, NOBODY, Culprit, CulpritKind
from rules.wording.words import (
    Headline,
    Part,
    Words,
    counted,
    listed,
    part_of,
    part_of_step,
    share,
    shortened,
)


@dataclass(frozen=True, slots=True)
class Extent:
    """``few`` of ``steps`` steady steps hold nearly all of a loss; ``few`` is 0 where many steps share it."""

    analysis: Analysis
    few: int
    steps: int

    @property
    def text(self) -> str:
        """ "in 2 of 12 steps"; empty where many steps share the loss."""
        return f"in {self.few} of {self.steps} steps" if self.few else ""

    def share(self, ns: int) -> Part:
        """ "57 % of every step", or "30 % of the time, in 2 of 12 steps"."""
        steps = self.steps if self.few else self.analysis.steps_in_window
        return Part(share(self.analysis, ns), steps, self.few)

    def part(self, ns: int) -> str:
        """ "26.5 of the 46.4 ms of a step", or "120 of the 396 ms of all steps"."""
        if not self.few:
            return part_of_step(self.analysis, ns)
        return f"{part_of(ns, self.analysis.window_ns)} of all steps"

    @property
    def sharing(self) -> int:
        """How many steps an amount of the whole window is divided by when it is told for one of them."""
        return self.few or max(self.analysis.steps_in_window, 1)

    def each(self, amount: float) -> float:
        """An amount of the whole window for one step, or all of it where it lies in a few."""
        return amount if self.few else amount / self.sharing

    def told(self, ns: float) -> str:
        """ "11.1 ms", as ``each`` has it."""
        return duration(self.each(ns))

    def counted(self, count: int, singular: str, plural: str) -> str:
        """ "6 copies a step", or "80 copies" where they lie in a few steps."""
        if not self.few:
            return counted(self.analysis, count, singular, plural)
        return f"{count:,} {singular if count == 1 else plural}"


def extent(analysis: Analysis, intervals: Intervals, device: int) -> Extent:
    """The extent of a loss on one device, given as disjoint intervals."""
    rank = analysis.trace.devices[device].rank if device >= 0 else None
    steps = [step for step in analysis.steady_steps if step.rank == rank]
    edges = np.array([(step.start, step.end) for step in steps], np.int64).reshape(-1, 2)
    lost = measure(intervals, edges[:, 0], edges[:, 1])
    if len(steps) < 2 or not lost.any():
        return Extent(analysis, 0, len(steps))
    largest = np.cumsum(np.sort(lost)[::-1])
    few = int(np.searchsorted(largest, NEARLY_ALL * largest[-1])) + 1
    return Extent(analysis, few if few <= MAJORITY * len(steps) else 0, len(steps))


CLEARLY_WORST = 1.5  # times the mean
MAX_EVIDENCE = 20
MIN_BETWEEN = 0.15  # of the time between kernels of a graph: less is what any sequence of kernels takes
MAX_INTERVALS = 20_000


@dataclass(frozen=True, slots=True)
class Blame:
    """One culprit's part of the idle time."""

    culprit: Culprit
    ns: int
    count: int  # gaps that it causes or shares


@dataclass(frozen=True, eq=False)
class IdleTime:
    """Idle time of one cause. ``ns`` is the mean over the active GPUs, ``worst_ns`` that of ``device``.

    A run of several goes at the pace of the one that waits longest, so what is told is ``worst_ns``, as its bar shows.
    """

    analysis: Analysis
    cause: Cause
    of: tuple[Culprit, ...] = ()  # of these alone: their rows on the GPU that idles longest for the cause

    @cached_property
    def by_device(self) -> dict[int, int]:
        """device -> ns inside the window."""
        return {
            device: self.analysis.budgets(device).idle_ns[self.cause]
            for device in self.analysis.active_devices
        }

    @property
    def ns(self) -> int:
        """The mean over the active GPUs: what is worth telling is judged by it."""
        return sum(self.by_device.values()) // len(self.by_device) if self.by_device else 0

    @property
    def device(self) -> int:
        """The GPU that idles longest for this cause; -1 without any."""
        return max(self.by_device, key=lambda device: self.by_device[device], default=-1)

    @property
    def worst_ns(self) -> int:
        return self.by_device.get(self.device, 0)

    @cached_property
    def rows(self) -> I64:
        """Rows of the idle table on the worst GPU inside the window, longest first."""
        idle = self.analysis.idle
        t0, t1 = self.analysis.window
        first, last = np.searchsorted(idle.device, (self.device, self.device + 1)).tolist()
        here = slice(first, last)
        mine = of_kinds(idle.cause[here], self.cause) & (idle.end[here] > t0) & (idle.start[here] < t1)
        if self.of:
            wanted = np.array([name in self.of for name in idle.culprits], bool)
            mine &= wanted[idle.culprit[here]]
        rows = np.flatnonzero(mine) + first
        longest_first: I64 = rows[np.argsort(-self._length(rows), kind="stable")]
        return longest_first

    def _length(self, rows: I64) -> I64:
        t0, t1 = self.analysis.window
        idle = self.analysis.idle
        return np.minimum(idle.end[rows], t1) - np.maximum(idle.start[rows], t0)

    @cached_property
    def blames(self) -> tuple[Blame, ...]:
        """Culprits on the worst GPU, the largest first."""
        idle = self.analysis.idle
        length = self._length(self.rows)
        total = np.bincount(idle.culprit[self.rows], length, minlength=len(idle.culprits))
        gap = np.sort(idle.culprit[self.rows].astype(np.int64) << 40 | idle.next_operation[self.rows] + 1)
        once = np.append(gap[1:] != gap[:-1], True)[: len(gap)]
        count = np.bincount(gap[once] >> 40, minlength=len(idle.culprits))
        order = sorted(
            np.flatnonzero(count).tolist(), key=lambda index: (-total[index], idle.culprits[index].text)
        )
        return tuple(Blame(idle.culprits[index], int(total[index]), int(count[index])) for index in order)

    @property
    def culprit(self) -> Culprit:
        return self.blames[0].culprit if self.blames else NOBODY

    @cached_property
    def by_next_operation(self) -> tuple[tuple[str, int], ...]:
        """(name, ns) of the operations that ended the gaps, the longest wait first."""
        idle, trace = self.analysis.idle, self.analysis.trace
        ended = idle.next_operation[self.rows] >= 0
        names = trace.events.name[idle.next_operation[self.rows][ended]]
        total = np.bincount(names, self._length(self.rows)[ended])
        order = sorted(np.flatnonzero(total).tolist(), key=lambda name: (-total[name], trace.strings[name]))
        return tuple((kernel_name(trace.strings[name]), int(total[name])) for name in order)

    @cached_property
    def intervals(self) -> Intervals:
        """Where the worst GPU idles for this cause, the longest pieces, inside the window."""
        rows = self.rows[:MAX_INTERVALS]
        return clip(
            union(self.analysis.idle.start[rows], self.analysis.idle.end[rows]), *self.analysis.window
        )

    @cached_property
    def extent(self) -> Extent:
        """In which steps the worst GPU idles for this cause."""
        return extent(self.analysis, self.intervals, self.device)

    @property
    def part(self) -> str:
        """ "26.5 of the 46.4 ms of a step", or of all steps where it lies in a few of them."""
        return self.extent.part(self.worst_ns)

    @property
    def rank(self) -> int | None:
        """The rank that idles clearly longer for this cause than the others; None when all are alike."""
        alone = len(self.by_device) < 2 or self.worst_ns < CLEARLY_WORST * self.ns
        return None if alone else self.analysis.trace.devices[self.device].rank

    def where(self, most: int, least: float = 0.0005) -> str:
        """ "forward (11.1 ms), backward (1.44 ms)": the first culprits on the worst GPU, as parts of ``part``."""
        worth = [each for each in self.blames if share(self.analysis, each.ns) >= least]
        return self.named(worth[:most])

    def named(self, blames: Sequence[Blame]) -> str:
        """The same for some of them."""
        return listed([f"{each.culprit.said} ({self.extent.told(each.ns)})" for each in blames])

    @property
    def on_worst(self) -> str:
        """ " on rank 3, GPU 3" where there are several GPUs: whose culprits are listed; else empty."""
        return f" on {device_name(self.analysis.trace, self.device)}" if len(self.by_device) > 1 else ""

    @property
    def spread(self) -> str:
        """With several GPUs: whose numbers these are, and how much all idle on average, as a sentence; else empty."""
        if len(self.by_device) < 2:
            return ""
        worst, mean = device_name(self.analysis.trace, self.device), self.extent.told(self.ns)
        return f" This is {worst}, which idles most of {len(self.by_device)} GPUs; the mean is {mean}."

    def inside_culprit(self) -> int:
        """How many launches the first culprit's longest instance contains; 0 when it launches nothing itself."""
        idle, trace = self.analysis.idle, self.analysis.trace
        names = [idle.culprit_of(row) == self.culprit for row in self.rows.tolist()]
        mine = self.rows[np.array(names, bool)] if len(names) else self.rows
        if not len(mine) or int(idle.event[mine[0]]) < 0:
            return 0
        event = int(idle.event[mine[0]])
        drivers, _ = self.analysis.threads.drivers(self.device)
        starts = trace.events.start[self.analysis.threads.calls(drivers, *WORK_CALLS)]
        low, high = np.searchsorted(starts, (trace.events.start[event], trace.events.end[event]))
        return int(high - low)

    def evidence(self, most: int = MAX_EVIDENCE) -> tuple[Evidence, ...]:
        """The longest instances, drawn on the stream whose next operation ended the gap."""
        idle, trace = self.analysis.idle, self.analysis.trace
        lane = any_stream(trace, self.device)
        found = []
        for row in self.rows[:most].tolist():
            following = int(idle.next_operation[row])
            found.append(
                Evidence(
                    lane=int(trace.events.lane[following]) if following >= 0 else lane,
                    start=int(idle.start[row]),
                    end=int(idle.end[row]),
                    name=idle.culprit_of(row).text,
                )
            )
        return tuple(found)

    @property
    def longest_ns(self) -> int:
        return int(self._length(self.rows[:1])[0]) if len(self.rows) else 0


def any_stream(trace: Trace, device: int) -> int:
    """The lane of the device's busiest stream; 0 without any."""
    lanes = [index for index, lane in enumerate(trace.lanes) if lane.device == device and lane.is_gpu]
    return max(
        lanes,
        key=lambda lane: trace.events.lane_slice(lane).stop - trace.events.lane_slice(lane).start,
        default=0,
    )


def between_nodes(analysis: Analysis) -> tuple[IdleTime, int]:
    """The time that passes between kernels which one call launched together, as a CUDA graph does, and how long it is.

    On the GPU where it is longest, in ns; 0 where it does not matter.
    """
    waiting = IdleTime(analysis, Cause.DEPENDENCY, (BETWEEN_NODES,))
    ns = sum(each.ns for each in waiting.blames)
    return waiting, ns if share(analysis, ns) >= MIN_BETWEEN else 0


def event_evidence(trace: Trace, events: I64, most: int = MAX_EVIDENCE) -> tuple[Evidence, ...]:
    """The longest of some events, as evidence."""
    return evidence_of(trace, events[np.argsort(-durations(trace, events), kind="stable")][:most])


def evidence_of(trace: Trace, events: I64) -> tuple[Evidence, ...]:
    """These events, as evidence in this order."""
    table = trace.events
    columns = (each[events].tolist() for each in (table.lane, table.start, table.end, table.name))
    return tuple(
        Evidence(lane, start, end, trace.strings[name], event)
        for lane, start, end, name, event in zip(*columns, events.tolist(), strict=True)
    )


def kernel_culprit(trace: Trace, kernel: int) -> Culprit:
    """A kernel of the timeline as a culprit, under its recorded name."""
    return Culprit(CulpritKind.KERNEL, shortened(trace.name(kernel), 120))


def idle_finding(
    rule: Rule,
    waiting: IdleTime,
    what: Words,
    account: Words,
    remedy: Remedy,
    unknown: tuple[Words, ...],
    category: Category | None = None,
    culprit: Culprit | None = None,
    severity: Severity | None = None,
    confidence: str = "high",
    of_recording: bool = False,
    once: float = 0.0,
) -> Finding:
    """What ``rule`` says of ``waiting``; the headline gets the share of the step, the account who is worst.

    ``culprit``: who is blamed, where more is known of that than of each piece of idle time. ``severity``: where it does
    not follow from the share.
    """
    analysis, ceiling = waiting.analysis, waiting.worst_ns
    return rule.finding(
        analysis,
        category=category or rule.category,
        severity=severity,
        headline=Headline(what, waiting.extent.share(ceiling)),
        account=account + waiting.spread,
        remedy=remedy,
        ceiling_ns=ceiling,
        culprit=culprit or waiting.culprit,
        rank=waiting.rank,
        device=waiting.device,
        evidence=waiting.evidence(),
        intervals=pairs(waiting.intervals),
        unknown=unknown,
        confidence=confidence,
        of_recording=of_recording,
        once=once,
        divided=rule.category is Category.HOST_BOUND and waiting.blames[0].ns < MAJORITY * waiting.worst_ns,
    )
