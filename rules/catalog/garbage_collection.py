"""Python collects its garbage while everything else waits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import EventKind
from parsers.model.names.per_name import named
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, pairs
from rules.analysis.names.regions import is_collection
from rules.analysis.steps.garbage import collections_among
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import event_evidence
from rules.losses.pauses import longest_pause
from rules.remedies.host_work import COLLECT_SELDOM
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import share

MAX_EVIDENCE = 3


@rule
class GarbageCollection(Rule):
    """Time in Python's garbage collector."""

    id = "garbage-collection"
    category = Category.HOST_BOUND
    needs = frozenset({Need.CPU_EVENTS})
    explanation = """
What it found
    Python collects its garbage while the program trains or serves.

Why it costs time
    A full collection looks at every object that can refer to others. With hundreds of thousands of them it takes
    tens of milliseconds, in which no Python code runs and nothing is launched.

How it decides
    It adds up ranges and frames of the collector: a script that Stallscope records gets a range for each full
    collection; torch's profiler writes frames with stacks, and ranges with record_python_gc_info. On a GPU it counts
    what of that time the GPU idles. Below {least-share} of the step nothing is reported. Without such records nobody
    can tell: a collection is then part of the unnamed Python work.

What to try
    Collect every few hundred steps: gc.freeze() after building the model, gc.disable(), and gc.collect() in the loop.

When it is wrong
    If one collection happened to fall into a short recording and comes rarely.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace, threads = analysis.trace, analysis.threads

        def collecting(thread: int) -> Intervals:
            return collections_among(trace, threads.events(thread))

        found = longest_pause(analysis, collecting)
        if found is None or share(analysis, found.ns) < analysis.thresholds[MIN_SHARE]:
            return
        events = threads.events(found.thread)
        events = trace.events.only(events, EventKind.REGION, EventKind.PYTHON)
        events = events[named(trace, events, is_collection)]
        start = trace.events.start[events]
        events = events[(start >= analysis.window[0]) & (start < analysis.window[1])]
        starts, ends = collecting(found.thread)
        inside = (starts >= analysis.window[0]) & (starts < analysis.window[1])
        count, each = int(np.count_nonzero(inside)), float(np.mean((ends - starts)[inside]))
        times = "A collection takes" if count == 1 else f"{count:,} collections take"
        average = "" if count == 1 else " on average"
        waits = "the GPU idles" if found.device >= 0 else "nothing else runs"
        yield self.finding(
            analysis,
            ceiling_ns=found.ns,
            headline=Headline("Collecting garbage stops Python", found.extent.share(found.ns)),
            account=f"{times} {duration(each)}{average}, and meanwhile {waits}: {found.extent.part(found.ns)}.",
            remedy=COLLECT_SELDOM,
            culprit=Culprit(CulpritKind.REGION, "Python's garbage collection"),
            device=found.device if found.device >= 0 else None,
            evidence=event_evidence(trace, events, MAX_EVIDENCE),
            intervals=pairs(found.intervals),
            unknown=("What creates the garbage, and whether a collection is asked for or comes by itself.",),
        )
