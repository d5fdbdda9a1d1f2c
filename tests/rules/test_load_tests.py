"""What is said of load tests: the part of a request that takes the time, and where a server reaches its limit."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from parsers.model import Progress, ResultColumn, ResultTable, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.results import LoadTest, RequestPart
from parsers.model.units import NS_PER_MS
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnose
from rules.findings.base import Finding
from rules.verdict.verdict import verdict

# The cases lie on either side of these.
MUCH_IN_QUEUE = 0.3
LATE_FIRST_TOKEN = 0.3
MIN_SLOWER = 2.0
MIN_LATE = 2.0


def of_tokens(
    first: float, others: float, *, rate: float = 0.0, at_once: float = 0.0, half: float = 0.0
) -> LoadTest:
    parts = ((RequestPart.FIRST_TOKEN, first * NS_PER_MS), (RequestPart.TOKENS, others * NS_PER_MS))
    return LoadTest(parts, 5 * NS_PER_MS, rate, at_once, half * NS_PER_MS)


def of_stages(queue: float, compute: float, outside: float) -> LoadTest:
    stages = (RequestPart.QUEUE, RequestPart.COMPUTE, RequestPart.OUTSIDE)
    return LoadTest(
        tuple((part, ms * NS_PER_MS) for part, ms in zip(stages, (queue, compute, outside), strict=True))
    )


def of(*tests: LoadTest | None) -> Trace:
    builder = TraceBuilder()
    for number, load in enumerate(tests):
        columns = (ResultColumn("metric"), ResultColumn("avg"))
        builder.tables.append(ResultTable(f"Load test {number}", columns, (("completed", 1.0),), load=load))
    builder.came_from("result.json", "bench-serving", "bench_serving")
    return builder.build(Progress())


def findings_of(trace: Trace) -> list[Finding]:
    return [each for each in diagnose(trace).findings if each.rule == "load-test"]


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (of_tokens(29, 71), "A request takes 100 ms, 71 % of it to generate tokens, 5.00 ms each"),
        (of_tokens(31, 69), "The first token comes after 31.0 ms, 31 % of the time of a request"),
        (of_stages(31, 60, 9), "Requests wait in the server's queue for 31 % of their time"),
        (of_stages(29, 60, 11), "A request takes 100 ms, 60 % of it in the model"),
        (of_stages(1, 2, 97), "A request takes 100 ms, 97 % of it outside the server's stages"),
    ],
)
def test_the_part_that_takes_the_time_is_the_verdict(load: LoadTest, expected: str) -> None:
    trace = of(load)
    assert verdict(Analysis(trace), diagnose(trace)) == expected


@pytest.mark.parametrize(
    ("late_ms", "at_once", "is_said"), [(201, 0, True), (199, 0, False), (201, 16, True), (199, 16, False)]
)
def test_a_server_that_answers_fewer_requests_than_are_asked_for_is_told(
    late_ms: float, at_once: float, is_said: bool
) -> None:
    """Where no more than so many run at once, they are not sent as fast as was asked for."""
    load = replace(of_tokens(60, 40, rate=16, at_once=at_once), late_ns=late_ms * NS_PER_MS)
    (found,) = findings_of(of(load))
    assert ("the server cannot answer 16 a second." in found.account) is is_said
    assert ("should have been sent: with this limit, the server" in found.account) is (
        is_said and at_once > 0
    )
    assert ("answers fewer requests than are sent" in str(found.remedy.advice)) is (is_said and not at_once)


def test_results_without_parts_of_a_request_are_shown_alone() -> None:
    assert findings_of(of(None)) == []
    assert findings_of(of(LoadTest(((RequestPart.QUEUE, 0.0),)))) == []


@pytest.mark.parametrize(("later", "is_said"), [(2.0, True), (1.9, False)])
def test_a_first_token_that_comes_late_under_more_requests_is_told(later: float, is_said: bool) -> None:
    (found,) = findings_of(
        of(of_tokens(100, 50, rate=4), of_tokens(100 * later, 50, rate=8), of_tokens(500, 5000, rate=2))
    )
    said = f"At 4 a second the first token comes after 100 ms, at 8 after {100 * later:.0f} ms."
    assert (said in found.account) is is_said
    assert "Of 3 load tests: Load test 1." in found.account


@pytest.mark.parametrize(
    ("rate", "at_once", "sent_at_once"), [(math.inf, 0.0, True), (math.inf, 16.0, False), (4.0, 0.0, False)]
)
def test_requests_that_were_sent_at_once_wait_for_each_other(
    rate: float, at_once: float, sent_at_once: bool
) -> None:
    (found,) = findings_of(of(of_tokens(90, 10, rate=rate, at_once=at_once)))
    assert any("sent all at once" in each for each in found.advice) is sent_at_once
    assert "inf" not in found.account


@pytest.mark.parametrize(("half", "said"), [(20.0, True), (21.0, False), (0.0, False)])
def test_a_mean_that_few_requests_make_is_not_told_alone(half: float, said: bool) -> None:
    (finding,) = findings_of(of(of_tokens(40, 60, half=half)))
    usual = "The first token comes after 20.0 ms for half of the requests, and after 40.0 ms on average"
    assert (finding.title == usual) is said
    assert ("takes 100 ms on average: " in finding.explanation) is said
    assert finding.remedy.advice[0].startswith("Look at the requests that wait longest") is said


@pytest.mark.parametrize(("at_once", "alone"), [(0.99, True), (1.4, True), (1.5, False), (0.0, False)])
def test_one_request_at_a_time_waits_for_no_other(at_once: float, alone: bool) -> None:
    (finding,) = findings_of(of(of_tokens(40, 60, at_once=at_once)))
    assert finding.remedy.advice[0].startswith("Only one request runs at a time") is alone
