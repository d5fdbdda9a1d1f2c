"""Requests of an inference server: how long they take, and in which stage the time goes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, LaneKind, Trace
from parsers.model.late import dataclass
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import evidence_of
from rules.terms import Culprit, CulpritKind
from rules.wording.words import Headline, listed, shortened

MIN_NAMED = 0.05  # of the requests' time
MUCH_IN_QUEUE = 0.3  # of it: then more requests come at once than the model's instances answer
_WAITS = "queue"


@dataclass(frozen=True, slots=True)
class _Served:
    """The requests of one recording; times in ns. ``stages`` holds how long each took in all, longest first."""

    requests: I64  # events
    times: I64
    stages: tuple[tuple[str, int], ...]

    @property
    def whole_ns(self) -> int:
        return int(self.times.sum())

    def share(self, stage: str) -> float:
        return dict(self.stages).get(stage, 0) / max(self.whole_ns, 1)


@rule
class ServedRequests(Rule):
    id = "served-requests"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.SERVED_REQUESTS})
    explanation = f"""
What it found
    A model server recorded when each request was received, queued and computed.

Why it costs time
    A request that waits in the queue is as late as one that is computed slowly, and faster computation may not help
    it.

How it decides
    The stages of all requests are added up. If at least {percent(MUCH_IN_QUEUE)} of their time is in the queue, that
    is reported first; otherwise the longest stage.

What to try
    Let the server batch requests, and run several instances of the model, as long as the GPU has room for them.

When it is wrong
    Traces often contain one of many requests (rate=1000): how many there were at once is then unknown.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        served = _served(trace)
        if not len(served.requests) or not served.stages:
            return
        queued = served.share(_WAITS)
        stage = served.stages[0][0]
        slowest = served.requests[np.argsort(-served.times, kind="stable")[:3]]
        yield self.finding(
            analysis,
            headline=Headline("Requests wait in the queue", f"{percent(queued)} of their time")
            if queued >= MUCH_IN_QUEUE
            else Headline(
                "Requests were answered", f"{percent(served.share(stage))} of their time in {stage}"
            ),
            account=_account(served),
            remedy=remedy(
                "Let the server batch requests (dynamic_batching) and run more instances of the model "
                "(instance_group).",
                "Send fewer requests at once, or to more servers, if the GPU is already busy all the time.",
            )
            if queued >= MUCH_IN_QUEUE
            else remedy(
                "Record the server with nsys or the model's profiler, to see what the GPU does in this stage."
            ),
            culprit=Culprit(CulpritKind.REGION, shortened(trace.name(int(slowest[0])), 80)),
            evidence=evidence_of(trace, slowest),
            unknown=("What the GPU did meanwhile: record it as well, with nsys profile --trace=cuda.",),
            of_recording=True,
        )


def _served(trace: Trace) -> _Served:
    lanes = np.array([lane.kind is LaneKind.SERVED for lane in trace.lanes], bool)
    events = np.flatnonzero(lanes[trace.events.lane])
    whole = trace.events.depth[events] == 0
    requests, stages = events[whole], events[~whole]
    took = np.bincount(
        trace.events.name[stages], trace.events.duration[stages], minlength=len(trace.strings)
    ).astype(np.int64)
    by_size = [name for name in np.argsort(-took, kind="stable").tolist() if took[name] > 0]
    return _Served(
        requests,
        trace.events.duration[requests],
        tuple((trace.strings[name], int(took[name])) for name in by_size),
    )


def _account(served: _Served) -> str:
    half, nearly_all = np.percentile(served.times, (50, 99)).tolist()
    count = len(served.requests)
    stages = listed(
        [
            f"{name} ({percent(took / served.whole_ns)})"
            for name, took in served.stages
            if took >= MIN_NAMED * served.whole_ns
        ]
    )
    return (
        f"{count:,} request{'s' if count != 1 else ''}: median latency {duration(half)}, 99th percentile "
        f"{duration(nearly_all)}. Their time goes to {stages}."
    )
