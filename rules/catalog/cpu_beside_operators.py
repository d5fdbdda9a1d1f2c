"""Programs on the CPU alone whose time goes beside their operators: to Python, or to too many threads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration, percent
from rules.analysis.arithmetic.intervals import Intervals, length
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.cpu.interruptions import LONG_GAP_NS, MANY_TIMES, MAX_INTERRUPTION_NS
from rules.analysis.stretches.program_frames import is_sleep
from rules.findings.base import Finding, rule
from rules.losses.cpu_work import (
    MAX_NAMED,
    MIN_SEEN,
    MIN_SHARE,
    MIN_STEPS,
    CpuRule,
    called_libraries,
    culprit_of,
    function_of,
    libraries,
    longest_of,
    named_shares,
    own_lines,
    unknown_lines,
)
from rules.losses.lost_time import evidence_of
from rules.losses.pauses import few_of_steps, rare_pauses
from rules.remedies.cpu_work import OUTSIDE_OPERATORS, as_many_threads
from rules.remedies.host_work import RARER_IN_SLOW_STEPS, WAIT_FOR_WORK, by_name
from rules.terms import MAJORITY, Culprit, CulpritKind, reason
from rules.wording.words import number_of_cores


@rule
class CpuOutsideOperators(CpuRule):
    id = "cpu-outside-operators"
    explanation = f"""
What it found
    Only the CPU was recorded, and for much of a step its busiest thread runs no operator: it is in Python, NumPy,
    pandas or another library, or it waits.

Why it costs time
    One thread does it, while nothing is computed.

How it decides
    It adds up the times of {duration(LONG_GAP_NS)} or more in which neither an operator nor a data loader runs.
    Shorter ones are the cost of calling the next operator, and those that are usually short between the same two
    operators at the same place of a step are interruptions, of which all that is short has its part. Where they are
    long in half of the steps, they are interruptions if as many operators were interrupted, too. What is longer
    by {duration(MAX_INTERRUPTION_NS)} and {MANY_TIMES} times as long as usual is none, nor what is mostly in a function
    that is never quicker. What a few steps have beyond the median one is told by itself. Below {percent(MIN_SHARE)}
    of the step nothing is reported, nor below {percent(MIN_SEEN)} without the part of interruptions, nor if fewer than
    {MIN_STEPS} steps were found. With stacks, it says if the thread sleeps for {percent(MAJORITY)} of this time.

What to try
    Replace loops with calls on whole arrays, keep results that do not change, or prepare them in another process
    while the step computes. Wait for work instead of sleeping until some is there.

When it is wrong
    If the thread waits for something that was not recorded, such as a network.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        if min(time.outside_ns, time.outside_seen_ns * MIN_SHARE / MIN_SEEN) < MIN_SHARE * time.step_ns:
            return
        pauses, usual = rare_pauses(time, time.outside)
        rare_ns = time.without_recorder(pauses)
        usual_ns = time.outside_ns - rare_ns
        if rare_ns < MIN_SHARE * time.step_ns:
            yield self._told(time, time.outside, time.outside_ns)
            return
        yield self._told(time, pauses, rare_ns)
        if usual_ns >= MIN_SHARE * time.step_ns:
            yield self._told(time, usual, usual_ns)

    def _told(self, time: CpuTime, within: Intervals, ns: int) -> Finding:
        steps, whole = time.steps, length(within)
        few, of = few_of_steps(time, within)
        lines = own_lines(time, within)
        told = named_shares(time.trace, lines, whole)
        sleeps = _slept_ns(time, within) >= MAJORITY * whole
        call = _mostly_called(time, within)
        mostly = "sleeping" if sleeps else function_of(call)
        advice = WAIT_FOR_WORK if sleeps else by_name(Culprit(CulpritKind.FRAME, call))
        in_all = " in all" if few > 1 else ""
        where = (
            f"In {few} of {of} steps, neither an operator nor a data loader runs for {duration(ns)}{in_all}"
            if few
            else f"A step takes {duration(time.step_ns / steps)}, and for {duration(ns / steps)} of it neither an "
            "operator nor a data loader runs"
        )
        average = " on average" if few else ""
        return self.lost(
            time,
            ns,
            "Code outside PyTorch's operators" + (f", mostly {mostly}" if mostly else ""),
            few=few,
            account=f"{where}: the thread is in Python or in a library."
            + _where(time, within)
            + (f" In the program's own code it is in {told}." if told else "")
            + libraries(time, within)
            + f" Without this code a step would take {duration((time.step_ns - ns) / steps)}{average}.",
            remedy=advice or (RARER_IN_SLOW_STEPS if few else OUTSIDE_OPERATORS),
            culprit=culprit_of(
                time.trace, lines, Culprit(CulpritKind.OUTSIDE, "Python code outside any operator")
            ),
            evidence=longest_of(time, within, "no operator runs"),
            unknown=unknown_lines(time.trace, "this is"),
        )


def _slept_ns(time: CpuTime, within: Intervals) -> int:
    """For how long of this time the thread's innermost frame only lets time pass."""
    shares = time.shares(time.activity.functions, within)
    return sum(ns for event, ns in shares if is_sleep(time.trace.name(event)))


def _mostly_called(time: CpuTime, within: Intervals) -> str:
    """The frame of the library's function that the program calls for most of this time; "" where there is none."""
    for event, ns in called_libraries(time, within)[:1]:
        if ns >= MAJORITY * length(within):
            return time.trace.name(event)
    return ""


def _where(time: CpuTime, within: Intervals) -> str:
    """In which range, or between which ones, most of this time lies."""
    trace, whole = time.trace, length(within)
    for event, ns in time.shares(time.activity.user_regions, within)[:1]:
        if ns >= MAJORITY * whole:
            return f" {percent(ns / whole)} of this is in {trace.name(event)}."
    start, end = within
    column = time.activity.regions
    opens = np.flatnonzero(column.event >= 0)
    if not len(opens) or not len(start):
        return ""
    free = column.at(start) < 0
    follows = np.searchsorted(column.edges[opens], start)
    known = free & (follows < len(opens))
    begins = column.event[opens[np.minimum(follows, len(opens) - 1)]].astype(np.int64)
    names = trace.events.name[begins]
    spent = np.bincount(names[known], (end - start)[known]) if known.any() else np.zeros(1)
    most = int(spent.argmax())
    if spent[most] < MAJORITY * whole:
        return ""
    return f" {percent(spent[most] / whole)} of this is right before {trace.strings[most]}."


@rule
class CpuCrowdedThreads(CpuRule):
    id = "cpu-crowded-threads"
    steps_needed = 0
    explanation = f"""
What it found
    Only the CPU was recorded, and PyTorch's operators start more threads than the program has cores.

Why it costs time
    The threads of an operator wait for each other at its end. Where they take turns on a core, an operator lasts
    until the last of them has had its turn, and threads that wait take the core from threads that compute.

How it decides
    stallscope capture notes how many cores the program may use, by its affinity and its container's quota, and how
    many threads PyTorch starts. If these are more, an operator may take as many times longer as there are threads for
    each core: that is the most that can be saved. Below {percent(MIN_SHARE)} of a step nothing is reported, nor for
    other recordings, which do not say these numbers.

What to try
    Start as many threads as there are cores, or give the program more cores.

When it is wrong
    If the operators are so small that they run on one thread anyway, nothing is saved.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        capture = time.trace.capture
        if capture.cores is None or capture.threads is None:
            return
        cores, threads = capture.cores, capture.threads
        computing = time.without_recorder(time.computing)
        ceiling = round(computing * (1 - cores / threads))
        if ceiling < MIN_SHARE * time.step_ns:
            return
        longest = [event for event, _ in time.shares(time.activity.operators, time.computing)][:MAX_NAMED]
        yield self.lost(
            time,
            ceiling,
            f"{threads:,} threads share {number_of_cores(cores)}",
            took=time.computes * time.step_ns,
            account=(
                f"PyTorch starts {threads:,} threads for an operator, and the program may use "
                f"{number_of_cores(cores)}. Operators take {percent(time.computes)} of the time; how much of that is "
                "waiting for a core was not recorded."
            ),
            remedy=as_many_threads(cores),
            culprit=reason("more threads than cores"),
            evidence=evidence_of(time.trace, np.array(longest, np.int64)),
            unknown=("How much of this is waiting: try it with fewer threads.",),
            confidence="medium",
        )
