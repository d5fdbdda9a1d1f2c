"""The GPU has nothing to do while the thread that launches its work is off the processor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from parsers.model.names.sleeping import WaitFor
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import pairs
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category, Finding, Need, Remedy, Rule, Severity, remedy, rule, severity_of
from rules.losses.asleep import CAN_BE_PACED, Pace, Slept, name_sleep, slept, told_pace
from rules.losses.lost_time import IdleTime, idle_finding
from rules.remedies.host_work import WAIT_FOR_WORK
from rules.terms import MIN_SHARE
from rules.wording.words import Headline, Words, for_native, ours, share


@rule
class SleepingThread(Rule):
    id = "sleeping-thread"
    category = Category.HOST_BOUND
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS})
    explanation = """
What it found
    The GPU has finished all its work, and the thread that launches the next does not run: it sleeps, or it waits for
    a timer, for I/O such as requests or a camera, or for another thread. Or the program keeps a pace: it wakes up at
    regular times.

Why it costs time
    Nobody launches work meanwhile. But nothing computes either, so there is no work of the CPU to shorten. At a pace
    that is wanted, such as 25 pictures a second, it costs nothing: faster work only means a longer sleep.

How it decides
    It takes the idle time that would count as waiting for the host, and looks at what the launching thread did. Calls
    of the operating system (nanosleep, poll, pthread_cond_wait and the like, from 0.1 ms) say what it waits for; where
    it was recorded when threads ran on a processor, all other time of at least 0.1 ms counts as well. Left out is
    what the thread spends in calls of the GPU's API, or waits for Python's lock or for another thread that launches
    and works. It is reported in place of "waiting for the CPU" if more than half of that is such time.

    It is a pace if it is 15 % of the time or more, it is no wait for another thread (in Python programs: a timer), and
    more than 80 % of at least 8 periods from one awakening to the next differ by no more than 5 % from the usual one;
    so, too, in ranges that are named like input, but else they count as waiting for data. Then no other finding is more
    than low, and nothing is predicted: the program would sleep longer. Nothing is predicted, either, where the thread
    is off the processor for most of the time.

What to try
    If the pace is wanted, or the program waits for requests: nothing. Else change what sets the pace, wait for the
    event itself instead of sleeping, or read and prepare the next input in another thread.

When it is wrong
    On a crowded machine a thread may be ready to run and get no processor. And what it waits for regularly may be
    another process of the same program, such as one that prepares its data.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        name_sleep(analysis)
        for cause in CAN_BE_PACED:
            waiting = IdleTime(analysis, cause)
            if share(analysis, waiting.ns) < analysis.thresholds[MIN_SHARE]:
                continue
            found = slept(waiting)
            if found.pace is not None:
                yield self._paced(waiting, found, found.pace)
                return
            if found.is_most and cause is Cause.HOST:
                yield self._told(waiting, found)

    def _told(self, waiting: IdleTime, found: Slept) -> Finding:
        """That the thread does not run, and what it waits for."""
        severity = severity_of(waiting.worst_ns, waiting.analysis.window_ns)
        return idle_finding(
            self,
            waiting,
            what=_WHAT[found.most],
            account=_account(waiting, found),
            remedy=replace(_REMEDIES[found.most], code=_SEE_ALL_THREADS),
            unknown=(_WHO_WAKES_IT[found.most],),
            severity=Severity.MEDIUM
            if severity is Severity.HIGH and found.most is not WaitFor.THREAD
            else None,
            confidence="medium",
        )

    def _paced(self, waiting: IdleTime, found: Slept, pace: Pace) -> Finding:
        """That the program keeps a pace: of itself no loss."""
        return self.finding(
            waiting.analysis,
            category=Category.PACED,
            severity=Severity.INFO,
            headline=Headline(
                f"The program sleeps between rounds, {pace.rate}", waiting.extent.share(waiting.worst_ns)
            ),
            account=_account(waiting, found) + told_pace(found, pace) + waiting.spread,
            remedy=remedy(
                f"If {pace.rate} is what you want, there is nothing to fix: the GPU has time left, and faster work "
                "only lets the program sleep longer.",
                "If it is not, change what sets the pace: the sleep or the timer, the camera's rate, or how often "
                "requests come.",
                code=_AT_A_PACE,
            ),
            culprit=waiting.culprit,
            device=waiting.device,
            evidence=waiting.evidence(),
            intervals=pairs(waiting.intervals),
            unknown=("Whether this pace is wanted.",),
        )


_AT_A_PACE = """while running:
    process(next_picture)      # faster work here ...
    sleep_until(next_time)     # ... only makes this wait longer"""
_SEE_ALL_THREADS = """# what each thread waits for, and what the others do meanwhile
nsys profile --trace=cuda,nvtx,osrt --sample=process-tree --cpuctxsw=process-tree ./program"""


def _account(waiting: IdleTime, found: Slept) -> str:
    return f"The GPU has finished its queue and idles {waiting.part}.{found.text}"


_WHAT = {
    WaitFor.TIMER: "The GPU waits while the program sleeps",
    WaitFor.IO: "The GPU waits while the program waits for I/O",
    WaitFor.THREAD: "The GPU waits for a thread that waits for another one",
    WaitFor.UNKNOWN: "The GPU waits for a thread that does not run",
}
_IDLE_BY_NATURE = (
    "If it waits for requests, or for a device such as a camera, nothing on the GPU needs fixing: there is nothing to "
    "compute."
)
_REMEDIES: dict[WaitFor, Remedy] = {
    WaitFor.TIMER: WAIT_FOR_WORK.and_then(
        for_native(
            "Wait for what is needed, with a condition variable or poll, instead of sleeping for a fixed time."
        )
    ),
    WaitFor.IO: remedy(
        _IDLE_BY_NATURE,
        "If it reads the next input or writes results, do that in a thread of its own while the GPU works.",
    ),
    WaitFor.THREAD: remedy(
        "Find out what the other thread does then: that is the work that the GPU waits for.",
        ours(
            "Sample all threads of the CPU ($SampleTheCpu), and look at those that run while this one waits."
        ),
    ),
    WaitFor.UNKNOWN: remedy(
        _IDLE_BY_NATURE,
        "Record the calls of the operating system as well: nsys profile --trace=cuda,nvtx,osrt. They say what the "
        "thread waits for.",
    ),
}
_WHO_WAKES_IT: dict[WaitFor, Words] = {
    WaitFor.TIMER: "What the program sleeps for: samples of the CPU with call chains show who calls it.",
    WaitFor.IO: "Who is at the other end: a client, a device, a file, or another process of the program.",
    WaitFor.THREAD: "Which thread it waits for, and what that one does.",
    WaitFor.UNKNOWN: "Whether it waits for a timer, for I/O or for another thread, or got no processor.",
}
