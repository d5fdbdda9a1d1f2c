"""A recording without any work of a GPU: where its CPU spent the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from parsers.model import EventKind, Trace
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import measure
from rules.analysis.facts.completeness import is_cut
from rules.analysis.idle.threads import ThreadActivity
from rules.base import Category, Evidence, Finding, Need, Rule, remedy, rule
from rules.culprit import NOBODY, Culprit, CulpritKind
from rules.wording.headline import Headline

MOST_NAMED = 3
LEAST_NAMED = 0.05  # of the analysed time
SPANS_IT = 0.9  # ... and what holds so much of it is around everything, and says nothing
_CODE = """with torch.profiler.profile(with_stack=True) as profiler:  # names the lines that the CPU runs
    run()"""

Shares = list[tuple[int, int]]  # an event of that name, the longest, and ns in which it is the innermost


@rule
class CpuRecording(Rule):
    """Information: which regions, frames and operators a CPU alone spent its time in."""

    id: ClassVar[str] = "cpu-recording"
    category: ClassVar[Category] = Category.WHAT_WAS_RECORDED
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CPU_EVENTS})
    explanation: ClassVar[str] = f"""
What it found
    The recording holds work of the CPU and none of a GPU: neither kernels nor calls that launch any.

Why it costs time
    It does not. Nobody waits for a GPU here; what takes time is what the CPU runs.

How it decides
    Of the thread that is busiest in the analysed time, each moment belongs to the innermost region; where there are no
    regions, or one holds {percent(SPANS_IT)} and more, to the innermost Python frame, else to the innermost operator.
    What holds at least {percent(LEAST_NAMED)} of that time is named.

What to try
    Look at *Flame* and *Operators*. Where the program was meant to run on a GPU, see whether its model and tensors are
    there, and record the GPU as well.

When it is wrong
    Where the GPU was at work and nobody recorded it. A recording of a long run of calls without their kernels is told
    apart: the calls that launch kernels are recorded then. So is a file that was cut off before them.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        if len(trace.gpu_operations) or (trace.events.kind == EventKind.API).any() or is_cut(trace):
            return
        threads, window = analysis.threads, analysis.window
        activity, busy_ns = _busiest([threads.activity(index) for index in range(len(threads.keys))], window)
        if activity is None:
            return
        kind, shares = _innermost(activity, window)
        named = [each for each in shares if each[1] >= LEAST_NAMED * analysis.window_ns][:MOST_NAMED]
        yield self.finding(
            analysis,
            headline=Headline("No GPU activity was recorded, only the CPU's"),
            account=_account(trace, named, busy_ns, analysis.window_ns),
            remedy=remedy(
                "See Flame and Operators for what the CPU runs. Where it was meant to be a GPU, see whether model "
                "and tensors are on it.",
                code=_CODE,
            ),
            culprit=Culprit(kind, _name(trace, named[0][0])) if named else NOBODY,
            evidence=tuple(_place(trace, event) for event, _ in named),
            unknown=("Whether a GPU worked meanwhile.",),
        )


def _busiest(
    activities: Sequence[ThreadActivity], window: tuple[int, int]
) -> tuple[ThreadActivity | None, int]:
    """The thread that works longest, and how long; those whose events are shorter in all are not looked at."""
    found, longest = None, 0
    length = activities[0].trace.events.duration if activities else np.empty(0, np.int64)
    at_most = np.array([length[activity.events].sum() for activity in activities])
    for index in np.argsort(-at_most, kind="stable"):
        if at_most[index] <= longest:
            break
        if (busy_ns := _busy_ns(activities[index], window)) > longest:
            found, longest = activities[index], busy_ns
    return found, longest


def _busy_ns(activity: ThreadActivity, window: tuple[int, int]) -> int:
    in_regions = sum(ns for _, ns in _shares(activity.trace, activity.regions, window))
    in_operators = measure(activity.running, *np.array(window).reshape(2, 1))
    return max(int(in_operators[0]), in_regions)


def _innermost(activity: ThreadActivity, window: tuple[int, int]) -> tuple[CulpritKind, Shares]:
    """What the thread was in, longest first."""
    frames = activity.events[activity.trace.events.kind[activity.events] == EventKind.PYTHON]
    columns = (
        (CulpritKind.REGION, activity.regions),
        (CulpritKind.FRAME, Innermost.of(activity.trace, frames)),
        (CulpritKind.OPERATOR, activity.operators),
    )
    found = [(kind, _shares(activity.trace, column, window)) for kind, column in columns]
    found = [(kind, shares) for kind, shares in found if shares] or [(CulpritKind.OPERATOR, [])]
    telling = [each for each in found if each[1] and each[1][0][1] < SPANS_IT * (window[1] - window[0])]
    return (telling or found)[0]


def _shares(trace: Trace, column: Innermost, window: tuple[int, int]) -> Shares:
    """Time by name inside the window, longest first, with the longest event of that name."""
    start = np.clip(column.edges, *window)
    length = np.diff(start, append=window[1])
    inside = (column.event >= 0) & (length > 0)
    event, length = column.event[inside], length[inside]
    if not len(event):
        return []
    _, first, name = np.unique(trace.events.name[event], return_index=True, return_inverse=True)
    total = np.bincount(name, weights=length).astype(np.int64)
    order = np.lexsort((length, name))
    longest = event[order[np.searchsorted(name[order], np.arange(len(first)), side="right") - 1]]
    by_size = np.argsort(-total, kind="stable")
    return list(zip(longest[by_size].tolist(), total[by_size].tolist(), strict=True))


def _account(trace: Trace, named: Shares, busy_ns: int, window_ns: int) -> str:
    where = ", ".join(
        f"{percent(ns / window_ns)} in {_name(trace, event)} ({duration(ns)})" for event, ns in named
    )
    if not where:
        return f"Its busiest thread works {percent(min(busy_ns / window_ns, 1.0))} of the time."
    return f"Its busiest thread spends {where}."


def _name(trace: Trace, event: int) -> str:
    return trace.strings[int(trace.events.name[event])]


def _place(trace: Trace, event: int) -> Evidence:
    table = trace.events
    return Evidence(
        int(table.lane[event]), int(table.start[event]), int(table.end[event]), _name(trace, event), event
    )
