"""How much of some idle time the launching threads slept or waited, what for, and whether they keep a regular pace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from parsers.model import F64, I64, EventKind, derived, derived_by
from parsers.model.arrays import median_of, rows_by
from parsers.model.late import dataclass
from parsers.model.names.per_name import distinct, named
from parsers.model.names.sleeping import WaitFor, is_processor, may_wait_for, waits_for
from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, measure, subtract, union
from rules.analysis.cpu.asleep import asleep, running
from rules.analysis.cpu.interruptions import lock_waits
from rules.analysis.idle.causes import Cause
from rules.analysis.names.host_language import is_python
from rules.losses.lost_time import IdleTime
from rules.terms import MAJORITY, NEARLY_ALL
from rules.wording.words import listed, share

WORTH_A_WORD = 0.2  # of the idle time
MIN_PACED = 0.15  # of the window asleep: a program that sleeps less may have its pace from its work
MIN_PERIODS = 8
AS_LONG = 0.05  # by which a period may differ from the usual one
REGULAR = 0.8  # of the periods
MAX_NAMED = 2
CAN_BE_PACED = (Cause.HOST, Cause.INPUT)


@dataclass(frozen=True, slots=True)
class Pace:
    """``share`` of ``periods`` between two awakenings are about ``period_ns`` long."""

    period_ns: int
    periods: int
    share: float

    @property
    def rate(self) -> str:
        """ "25.0 a second", or how many in a minute where that is less than one."""
        often = 1e9 / self.period_ns
        return f"{three_digits(often)} a second" if often >= 1 else f"{three_digits(60 * often)} a minute"


@dataclass(frozen=True, slots=True)
class Slept:
    """ns of the idle time in which the thread that ends it slept, by what for; ``calls`` are those it slept in most."""

    by: Mapping[WaitFor, int]
    whole_ns: int
    calls: tuple[str, ...] = ()
    pace: Pace | None = None

    @property
    def ns(self) -> int:
        return sum(self.by.values())

    @property
    def is_most(self) -> bool:
        return self.ns > MAJORITY * self.whole_ns

    @property
    def most(self) -> WaitFor:
        """What most of it is for."""
        return max(self.by, key=lambda each: self.by[each])

    @property
    def text(self) -> str:
        """A sentence that follows others; empty where there is little of it."""
        if self.ns < WORTH_A_WORD * self.whole_ns or not self.ns:
            return ""
        part = self.ns / self.whole_ns
        how_much = "nearly all" if part >= NEARLY_ALL else percent(part)
        return f" For {how_much} of this time the thread that launches does not run: {self.reason}."

    @property
    def reason(self) -> str:
        """ "it waits for a timer (nanosleep)"."""
        if self.most is WaitFor.UNKNOWN:
            return "what it waits for was not recorded"
        return f"it waits for {self.most.value}" + (f" ({listed(list(self.calls))})" if self.calls else "")


def slept(waiting: IdleTime) -> Slept:
    """The same for one cause of idle time on the worst GPU."""
    return _slept(waiting.analysis, waiting.cause)


def name_sleep(analysis: Analysis) -> None:
    """Have the table of idle time call the wait for a thread that sleeps most of it so."""
    if slept(IdleTime(analysis, Cause.HOST)).is_most:
        Analysis.idle.keep(analysis, replace(analysis.idle, sleeps=True))


@derived_by
def _slept(analysis: Analysis, cause: Cause) -> Slept:
    waiting, idle = IdleTime(analysis, cause), analysis.idle
    rows = waiting.rows
    drivers, main = analysis.threads.drivers(waiting.device)
    whole = int((idle.end[rows] - idle.start[rows]).sum())
    by = dict.fromkeys(WaitFor, 0)
    if not len(rows) or main < 0 or not _is_known(analysis):
        return Slept(by, whole)
    start, end = (
        np.maximum(idle.start[rows], analysis.window[0]),
        np.minimum(idle.end[rows], analysis.window[1]),
    )
    whole = int((end - start).sum())
    launch = analysis.trace.links.launch_of(np.maximum(idle.next_operation[rows], 0))
    owner = analysis.threads.of_events(np.maximum(launch, 0))
    thread = np.where((idle.next_operation[rows] >= 0) & (launch >= 0) & (owner >= 0), owner, main)
    took, called = np.zeros(len(rows), np.int64), np.zeros(len(analysis.trace.strings))
    for number, mine in rows_by(thread):
        for kind, when in _alone(analysis, int(number), tuple(drivers)).items():
            spent = measure(when, start[mine], end[mine])
            by[kind] += int(spent.sum())
            took[mine] += spent
        called += _by_call(analysis, int(number), start[mine], end[mine])
    found = Slept(by, whole, _largest(analysis, called))
    sets_a_pace = (WaitFor.TIMER,) if is_python(analysis.trace) else _FROM_OUTSIDE
    if not found.is_most or found.most not in sets_a_pace or share(analysis, found.ns) < MIN_PACED:
        return found
    return replace(found, pace=_pace(idle.next_operation[rows], end, took))


# A program of Python that waits regularly for I/O mostly waits for its own processes, which prepare its data
_FROM_OUTSIDE = (WaitFor.TIMER, WaitFor.IO, WaitFor.UNKNOWN)


@derived
def paced(analysis: Analysis) -> Pace | None:
    """The pace that a program keeps by sleeping, while its GPU idles; None where none is known."""
    found = (slept(IdleTime(analysis, cause)).pace for cause in CAN_BE_PACED)
    return next((each for each in found if each is not None), None)


def mostly_asleep(analysis: Analysis) -> str:
    """Why no replay can know when the work comes: a program keeps a pace, or its thread sleeps most of the time."""
    if (pace := paced(analysis)) is not None:
        return f"the program sleeps until its next round, {pace.rate}: whatever takes less time, it sleeps longer"
    found = slept(IdleTime(analysis, Cause.HOST))
    part = share(analysis, found.ns)  # waiting for data has fixes that are known to help
    if part <= MAJORITY:
        return ""
    return f"the thread that launches does not run for {percent(part)} of the time, and no replay knows what wakes it"


@derived
def _is_known(analysis: Analysis) -> bool:
    """Whether the recording holds calls of the operating system, or when threads ran."""
    trace = analysis.trace
    if EventKind.OS_RUNTIME in trace.kinds:
        return True
    others = trace.events.of_kind(EventKind.OTHER)
    return any(is_processor(trace.strings[name]) for name in distinct(trace.events.name[others]).tolist())


def _alone(analysis: Analysis, thread: int, drivers: tuple[int, ...]) -> Mapping[WaitFor, Intervals]:
    """When a thread sleeps and neither waits for Python's lock nor for another one that launches and works then."""
    others = [each for each in drivers if each != thread]
    busy = [lock_waits(analysis, drivers), *(ran for each in others if (ran := running(analysis, each)))]
    starts, ends = (np.concatenate(side) for side in zip(*busy, strict=True))
    return {kind: subtract(when, union(starts, ends)) for kind, when in asleep(analysis, thread).items()}


def _by_call(analysis: Analysis, thread: int, start: I64, end: I64) -> F64:
    """ns of these stretches in each call that lets a thread sleep, by its name."""
    trace = analysis.trace
    calls = trace.events.only(analysis.threads.events(thread), EventKind.OS_RUNTIME)
    calls = calls[named(trace, calls, waits_for if running(analysis, thread) is None else may_wait_for)]
    order = np.argsort(start, kind="stable")
    spent = measure((start[order], end[order]), *trace.events.spans(calls))
    return np.bincount(trace.events.name[calls], spent, minlength=len(trace.strings)).astype(
        np.float64, copy=False
    )


def _largest(analysis: Analysis, called: F64) -> tuple[str, ...]:
    order = np.argsort(-called, kind="stable")[:MAX_NAMED]
    return tuple(
        analysis.trace.strings[each]
        for each in order.tolist()
        if called[each] >= WORTH_A_WORD * called.sum() > 0
    )


def _pace(following: I64, end: I64, took: I64) -> Pace | None:
    """Of idle time, given with what ends it and how much of it the thread slept."""
    gaps, which = np.unique(following, return_inverse=True)
    slept_ns, awake = np.bincount(which, took), np.zeros(len(gaps), np.int64)
    np.maximum.at(awake, which, end)
    order = np.argsort(slept_ns)
    half = np.searchsorted(np.cumsum(slept_ns[order]), MAJORITY * slept_ns.sum())
    usual = slept_ns[order][min(int(half), len(order) - 1)]
    periods = np.diff(np.sort(awake[slept_ns >= MAJORITY * usual]))
    if len(periods) < MIN_PERIODS:
        return None
    period = float(median_of(periods))
    alike = float(np.mean(np.abs(periods - period) <= AS_LONG * period))
    return Pace(round(period), len(periods), alike) if alike > REGULAR and period > 0 else None


def told_pace(found: Slept, pace: Pace) -> str:
    """How regularly the thread wakes up, and what sets that pace, as sentences."""
    if found.most is WaitFor.TIMER:
        what = "A timer of the program sets this pace, and neither the GPU nor work of the CPU does."
    else:
        what = (
            "Whatever wakes it, such as a timer, a camera or a client, sets this pace, and the GPU keeps up."
        )
    return f" It wakes up every {duration(pace.period_ns)} in {percent(pace.share)} of {pace.periods:,} rounds. {what}"
