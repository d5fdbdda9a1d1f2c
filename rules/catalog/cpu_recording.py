"""A recording without any work of a GPU: where its CPU spent the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from parsers.model import EventKind, Trace
from parsers.model.names.per_name import named
from parsers.model.names.source_files import is_own_frame
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import complement, length, measure, union
from rules.analysis.facts.completeness import is_cut
from rules.analysis.idle.frames import is_users_frame
from rules.analysis.idle.threads import ThreadActivity
from rules.findings.base import Category, Evidence, Finding, Need, Rule, remedy, rule
from rules.terms.culprit import NOBODY, Culprit, CulpritKind
from rules.wording.headline import Headline
from rules.wording.phrases import listed, shortened, without_times

MOST_NAMED = 3
LEAST_NAMED = 0.05  # of the analysed time
LONGEST_NAME = 26  # in the title
LEAST_SILENCE = 0.2
LONGEST_SILENCE = 0.5  # of all of it: then it is one stretch
SPANS_IT = 0.9  # ... and what holds so much of it is around everything, and says nothing
_CODE = """with torch.profiler.profile(with_stack=True) as profiler:  # names the lines that the CPU runs
    run()"""

_RECORD_THE_GPU = remedy(
    "See Flame and Operators for what the CPU runs. Where it was meant to be a GPU, see whether model and tensors are "
    "on it.",
    code=_CODE,
)
_RECORD_WITH_TIMES = remedy(
    "The driver gave the profiler no times for what the GPU ran. Record again on another machine, or after updating "
    "the driver; nsys profile --trace=cuda,nvtx shows whether the GPU's times can be had there at all."
)

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
    regions, or one holds {percent(SPANS_IT)} and more, to the innermost Python frame, else to the innermost operator,
    which also goes before regions where one takes longer than any of them.
    What holds at least {percent(LEAST_NAMED)} of that time is named, beside regions also operators and the user's own
    functions; and where nothing that was recorded runs, if that is {percent(LEAST_SILENCE)} of the time.

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
        longest = [each for each in shares if each[1] >= LEAST_NAMED * analysis.window_ns][:MOST_NAMED]
        if untimed := trace.quality.gpu_work_without_times:
            headline, advice = Headline(without_times(untimed)), _RECORD_WITH_TIMES
            unknown = "When the GPU worked, and for how long."
        else:
            amount = _largest(trace, longest, analysis)
            headline, advice = (
                Headline("No GPU activity was recorded, only the CPU's", amount),
                _RECORD_THE_GPU,
            )
            unknown = "Whether a GPU worked meanwhile."
        yield self.finding(
            analysis,
            headline=headline,
            account=_account(trace, longest, busy_ns, analysis.window_ns)
            + _of_the_others(activity, kind, window)
            + _of_own_lines(activity, window)
            + _of_silence(activity, window),
            remedy=advice,
            culprit=Culprit(kind, _name(trace, longest[0][0])) if longest else NOBODY,
            evidence=tuple(_place(trace, event) for event, _ in longest),
            unknown=(unknown,),
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
    first, last = (telling or found)[0], (telling or found)[-1]
    if first[0] is CulpritKind.REGION and last[0] is CulpritKind.OPERATOR and last[1][0][1] > first[1][0][1]:
        return last
    return first


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


def _largest(trace: Trace, named: Shares, analysis: Analysis) -> str:
    """ "62 % in aten::addmm": what the busiest thread is in longest; empty where that is little."""
    if not named or named[0][1] < LEAST_SILENCE * analysis.window_ns:
        return ""
    event, ns = named[0]
    return f"{percent(ns / analysis.window_ns)} in {shortened(_name(trace, event), LONGEST_NAME)}"


def _listed(trace: Trace, shares: Shares, window: tuple[int, int]) -> str:
    whole = window[1] - window[0]
    told = [each for each in shares if LEAST_NAMED * whole <= each[1]][:MOST_NAMED]
    return listed([f"{_name(trace, event)} ({percent(ns / whole)})" for event, ns in told])


def _of_the_others(activity: ThreadActivity, kind: CulpritKind, window: tuple[int, int]) -> str:
    """Which operators take the time beside regions or frames, or which regions beside operators; may be empty."""
    of_operators = kind is not CulpritKind.OPERATOR
    column = activity.operators if of_operators else activity.regions
    told = _listed(activity.trace, _shares(activity.trace, column, window), window)
    what = "Of its operators the longest are" if of_operators else "Its regions are"
    return f" {what} {told}." if told else ""


def _of_own_lines(activity: ThreadActivity, window: tuple[int, int]) -> str:
    """Which functions of the user's own code hold the time, what they call included; a sentence, or empty."""
    trace = activity.trace
    frames = activity.events[trace.events.kind[activity.events] == EventKind.PYTHON]
    own = frames[named(trace, frames, lambda name: is_users_frame(name) and is_own_frame(name))]
    told = _listed(trace, _shares(trace, Innermost.of(trace, own), window), window)
    return f" In the program's own code that is {told}." if told else ""


def _of_silence(activity: ThreadActivity, window: tuple[int, int]) -> str:
    """How long the thread runs nothing that was recorded, and before what the longest stretch of it lies."""
    trace = activity.trace
    kinds = np.isin(
        trace.events.kind[activity.events], (EventKind.CPU_OP, EventKind.PYTHON, EventKind.REGION)
    )
    events = activity.events[kinds]
    start, end = trace.events.start[events], trace.events.end[events]
    telling = end - start < SPANS_IT * (window[1] - window[0])
    silent = complement(union(start[telling], end[telling]), *window)
    whole = length(silent)
    if not telling.any() or whole < LEAST_SILENCE * (window[1] - window[0]):
        return ""
    longest = int((silent[1] - silent[0]).argmax())
    took = int(silent[1][longest] - silent[0][longest])
    after = events[telling][start[telling] == silent[1][longest]]
    text = f" In {percent(whole / (window[1] - window[0]))} of the time it runs nothing that was recorded"
    if took < LONGEST_SILENCE * whole or not len(after):
        return f"{text}."
    return f"{text}: {duration(took)} of it before {_name(trace, int(after[0]))}."


def _name(trace: Trace, event: int) -> str:
    return trace.strings[int(trace.events.name[event])]


def _place(trace: Trace, event: int) -> Evidence:
    table = trace.events
    return Evidence(
        int(table.lane[event]), int(table.start[event]), int(table.end[event]), _name(trace, event), event
    )
