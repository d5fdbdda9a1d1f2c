"""Requests of an inference server: how long they take and in which stage, and what that is made of under load."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from parsers.model import I64, LaneKind, ResultTable, Trace
from parsers.model.late import dataclass
from parsers.model.results import LoadTest, RequestPart
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import evidence_of
from rules.terms import Culprit, CulpritKind
from rules.wording.words import Headline, Words, listed, ours, shortened

MUCH_IN_QUEUE = 0.3  # of a request: then more come at once than the model's instances answer
LATE_FIRST_TOKEN = 0.3  # of a request that is answered token by token
# times: the first token under more requests a second, where the server has reached its limit; and its mean to its
# median, where few requests make the mean
MIN_SLOWER = 2.0
MIN_LATE = 2.0  # times the time of a request, from the last request that was sent to the last answer
ALONE = 1.5  # requests at once: fewer do not wait for each other

_SENT_AT_ONCE = (
    "Send requests as they will come (--request-rate): sent all at once, most of them wait for the others."
)
_FEW_WAIT = (
    "Look at the requests that wait longest, which make the mean: if they are the first ones, warm the server up "
    "before the test; else the server had no room for them."
)
_FALLS_BEHIND = (
    "The server answers fewer requests than are sent, so each waits longer than the one before: add instances, send "
    "fewer, or limit how many wait and refuse the others."
)
_ALONE = (
    "Only one request runs at a time, so none waits for another: make prompts shorter, let the server reuse prompts "
    "that begin alike (prefix caching), or split the model over more GPUs."
)
_ADVICE: dict[RequestPart, Words] = {
    RequestPart.FIRST_TOKEN: (
        "Requests wait, or their prompts are long: add instances, limit how many run at once, and let the server "
        "reuse prompts that begin alike (prefix caching)."
    ),
    RequestPart.TOKENS: (
        "Make each token cheaper: quantise the weights, decode speculatively, or split the model over more GPUs. "
        "More requests at once give more tokens in all, but none of them sooner."
    ),
    RequestPart.QUEUE: (
        "Let the server batch requests (dynamic_batching), and run several instances of the model (instance_group), "
        "as long as the GPU has room for them."
    ),
    RequestPart.COMPUTE: "Make the model itself faster: the server adds little to it.",
    RequestPart.OUTSIDE: (
        "Look at the network and the clients. A model that sends several answers to one request (decoupled) works "
        "outside these stages."
    ),
}


@rule
class LoadTests(Rule):
    id = "load-test"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.LOAD_TEST})
    explanation = f"""
What it found
    A load test measured how long a server takes to answer, and when the first token comes or how long each stage takes.

Why it costs time
    A request that waits is as late as one that is computed slowly, and faster computation may not help it.

How it decides
    The mean request is taken apart, or the median one where no mean is stated. If at least
    {percent(LATE_FIRST_TOKEN)} of its time passes before the first token, or {percent(MUCH_IN_QUEUE)} in the server's
    queue, that is told; otherwise the longest part. Where the mean first token comes {MIN_SLOWER:.0f} times as late as
    the median one, both are told. Of several tests, the one is told in which the first token takes the largest share.
    If it comes {MIN_SLOWER:.0f} times as late when more requests a second are sent, that is said as well, and so are
    last answers that come {MIN_LATE:.0f} times the time of a request after all of them were sent.

What to try
    Let the server batch requests and run several instances of the model, or make single tokens cheaper. A recording
    of the server under this load tells what its GPU waits for.

When it is wrong
    Short tests are mostly start and end: fewer requests run at once then than in the middle.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        tests = [table for table in analysis.trace.tables if table.load is not None]
        if not tests:
            return
        table = max(tests, key=_lateness)
        load = table.load
        if load is None or not _whole(load):
            return
        part = _leading(load)
        yield self.finding(
            analysis,
            headline=Headline(_headline(load, part)),
            account=" ".join(
                [
                    *([f"Of {len(tests)} load tests: {table.title}."] if len(tests) > 1 else []),
                    _account(load),
                    *_slower(tests),
                ]
            ),
            remedy=remedy(
                _advice(load, part),
                ours("Record the server under this load ($RecordATimeline), to see what its GPU waits for."),
            ),
            culprit=Culprit(CulpritKind.OPERATOR, part.name.lower().replace("_", " ")),
            unknown=("Whether the GPU was idle meanwhile: this requires a timeline.",),
        )


def _advice(load: LoadTest, part: RequestPart) -> Words:
    if part is RequestPart.FIRST_TOKEN and 0 < load.at_once < ALONE:
        return _ALONE
    if part is RequestPart.FIRST_TOKEN and _falls_behind(load):
        return _FALLS_BEHIND
    if part is RequestPart.FIRST_TOKEN and _is_uneven(load):
        return _FEW_WAIT
    return _SENT_AT_ONCE if part is RequestPart.FIRST_TOKEN and _without_limit(load) else _ADVICE[part]


def _without_limit(load: LoadTest) -> bool:
    """Whether all requests were sent at once, and none of them was held back."""
    return math.isinf(load.rate) and not load.at_once


def _whole(load: LoadTest) -> float:
    return sum(ns for _, ns in load.parts)


def _share(load: LoadTest, part: RequestPart) -> float:
    return dict(load.parts).get(part, 0.0) / (_whole(load) or 1.0)


def _lateness(table: ResultTable) -> float:
    return _share(table.load, RequestPart.FIRST_TOKEN) if table.load is not None else 0.0


def _leading(load: LoadTest) -> RequestPart:
    if _share(load, RequestPart.FIRST_TOKEN) >= LATE_FIRST_TOKEN:
        return RequestPart.FIRST_TOKEN
    if _share(load, RequestPart.QUEUE) >= MUCH_IN_QUEUE:
        return RequestPart.QUEUE
    return max(load.parts, key=lambda each: each[1])[0]


def _headline(load: LoadTest, part: RequestPart) -> str:
    share, whole = percent(_share(load, part)), duration(_whole(load))
    time = duration(dict(load.parts)[part])
    if part is RequestPart.FIRST_TOKEN and _is_uneven(load):
        half = duration(load.half_first_ns)
        return f"The first token comes after {half} for half of the requests, and after {time} on average"
    if part is RequestPart.FIRST_TOKEN:
        return f"The first token comes after {time}, {share} of the time of a request"
    if part is RequestPart.TOKENS:
        each = f", {duration(load.token_ns)} each" if load.token_ns else ""
        return f"A request takes {whole}, {share} of it to generate tokens{each}"
    if part is RequestPart.QUEUE:
        return f"Requests wait in the server's queue for {share} of their time"
    if part is RequestPart.COMPUTE:
        return f"A request takes {whole}, {share} of it in the model"
    return f"A request takes {whole}, {share} of it outside the server's stages"


def _is_uneven(load: LoadTest) -> bool:
    """Whether some requests wait so much longer than others that the mean is of neither."""
    mean = dict(load.parts).get(RequestPart.FIRST_TOKEN, 0.0)
    return mean >= MIN_SLOWER * load.half_first_ns > 0


def _falls_behind(load: LoadTest) -> bool:
    """Whether requests came faster than they were answered, and nothing held them back."""
    return not load.at_once and _is_late(load)


def _is_late(load: LoadTest) -> bool:
    """Whether the last answers came long after all requests were, or should have been, sent."""
    return load.late_ns >= MIN_LATE * _whole(load) > 0


def _account(load: LoadTest) -> str:
    asked = f" at {load.rate:g} a second" if 0 < load.rate < math.inf else ""
    asked += f" with at most {load.at_once:.0f} at once" if load.at_once > 1 else ""
    told = {
        RequestPart.FIRST_TOKEN: "until the first token",
        RequestPart.TOKENS: "for the other tokens",
        RequestPart.QUEUE: "in the queue",
        RequestPart.COMPUTE: "in the model",
        RequestPart.OUTSIDE: "outside both",
    }
    parts = listed([f"{duration(ns)} {told[part]}" for part, ns in load.parts])
    mean = " on average" if _is_uneven(load) else ""
    return f"A request{asked} takes {duration(_whole(load))}{mean}: {parts}.{_lateness_told(load)}"


def _lateness_told(load: LoadTest) -> str:
    """That fewer requests were answered than were asked for, where that is so."""
    if not _is_late(load):
        return ""
    sent, limit = ("should have been", "with this limit, ") if load.at_once else ("were", "")
    return (
        f" The last answers came {duration(load.late_ns)} after all requests {sent} sent: {limit}the server cannot "
        f"answer {load.rate:g} a second."
    )


def _slower(tests: Sequence[ResultTable]) -> list[str]:
    """Where the first token comes much later when more is asked for, between tests next to each other."""
    loads = [table.load for table in tests if table.load is not None]
    found: list[str] = []
    for fewer, more in pairwise(loads):
        first, later = (dict(each.parts).get(RequestPart.FIRST_TOKEN, 0.0) for each in (fewer, more))
        if 0 < fewer.rate < more.rate < math.inf and later >= MIN_SLOWER * first > 0:
            found.append(
                f"At {fewer.rate:g} a second the first token comes after {duration(first)}, at {more.rate:g} after "
                f"{duration(later)}."
            )
    return found[-1:]


MIN_NAMED = 0.05  # of the requests' time
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
            account=_told_requests(served),
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


def _told_requests(served: _Served) -> str:
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
