"""Work on data that no request changes is told, and so is a result that has to leave the GPU."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

KEPT = [1_000_000, 64]


def searching(
    kept: list[int] | None = None,
    others: int = 3_000_000,
    before: float = 20.0,
    norm: float = 800.0,
    name: str = "aten::div",
    sent: bool = False,
    writes: list[int] | None = None,
    trains: bool = False,
    size: int = 640,
    reader: str = "aten::copy_",
    between: int = 3,
    lasts: float = 5.0,
    joins: str = "aten::mm",
    after: list[int] | None = None,
    alone: bool = False,
    count: int = 6,
    chunks: int = 1,
) -> Plan:
    """Requests that encode a question, divide what is kept by its norms, multiply, and read the result back.

    Those of several ``chunks`` divide first and encode then, in each.
    """
    data = KEPT if kept is None else kept

    def body(trace: TinyTrace, _: int) -> None:
        def work(at: float, start: float, lasts: float, operator: str, dims: list[list[int]]) -> None:
            trace.shapes(trace.op(at, at + 12, operator), dims, ["float"] * len(dims))
            trace.operation(start, start + lasts, "void kernel", at + 2)

        if sent:
            trace.shapes(trace.op(2, 8, "aten::to"), [data], ["float"])
            trace.copy(6, 8, "HtoD", 3, bytes=1_000)
        if not alone:
            work(10, 20, before, "aten::addmm", [[192, 384], [384, 1536]])
        work(30, 130, norm, name, [data, [data[0], 1]])
        work(50, 140 + norm, 1_000, joins, [[8, 64], [64, 1_000_000]])
        work(70, 1_150 + norm, 100, "aten::sort", [after or [others]])
        if writes:
            work(84, 1_260 + norm, 5, "aten::index_copy_", [writes])
        if trains:
            trace.op(97, 99, "autograd::engine::evaluate_function: MmBackward0")
        ends = 1_290 + norm
        if reader:
            trace.op(100, ends + 100, reader)
        trace.copy(ends, ends + 2, "DtoH", 130, pageable=True, bytes=size, launch_us=ends - 100)
        if reader:
            trace.op(ends + 110, ends + 200, reader)
        for place in range(between):
            begins = ends + 130 + place * 8
            trace.operation(begins, begins + lasts, "void kernel", ends + 112 + place * 6)
        trace.copy(ends + 172, ends + 174, "DtoH", ends + 160, pageable=True, bytes=size, launch_us=20)

    return plan_of_body(body, count=count, length=1_600 + norm)


def in_chunks(count: int = 2, chunks: int = 3, own: bool = True) -> Plan:
    """Searches that divide what is kept by its norms for each chunk of their questions."""

    def body(trace: TinyTrace, _: int) -> None:
        def work(at: float, start: float, lasts: float, operator: str, dims: list[list[int]]) -> None:
            trace.shapes(trace.op(at, at + 12, operator), dims, ["float"] * len(dims))
            trace.operation(start, start + lasts, "void kernel", at + 2)

        for chunk in range(chunks):
            at, start = 10 + 45 * chunk, 60 + 500 * chunk
            work(at, start, 400, "aten::div", [KEPT, [KEPT[0], 1]])
            if own:
                work(at + 15, start + 405, 5, "aten::relu", [[8, 64]])
            work(at + 30, start + 415, 70, "aten::mm", [[8, 64], [64, 1_000_000]])
        ends = 80 + 500 * chunks
        trace.copy(ends, ends + 2, "DtoH", 60 + 45 * chunks, pageable=True, bytes=640, launch_us=500 * chunks)
        trace.kernels(ends + 10, 10, 5, 6, "void next_question")

    return plan_of_body(body, count=count, length=300 + 500 * chunks)


@pytest.mark.parametrize(
    ("chunks", "count", "own", "found"),
    [(3, 2, True, True), (1, 2, True, False), (2, 2, True, True), (3, 2, False, False)],
    ids=["three chunks", "one chunk in each of two searches", "two chunks in each", "nothing of its own"],
)
def test_what_no_chunk_of_a_request_changes(chunks: int, count: int, own: bool, found: bool) -> None:
    plan = in_chunks(count, chunks, own)
    assert told(plan, "compute-once") is found
    if found:
        assert 2.5 < plan.promises[0].expected < 6


def told(plan: Plan, fix: str) -> bool:
    return any(each.proposal.fix == fix for each in plan.promises)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"others": 4_100_000}, False),
        ({"before": 6_500.0}, False),
        ({"norm": 40.0}, False),
        ({"name": "aten::div_"}, False),
        ({"sent": True}, False),
        ({"writes": [1, 64]}, False),
        ({"writes": [8, 8]}, True),
        ({"trains": True}, False),
        ({"joins": "aten::add"}, False),
        ({"after": [1_000_000, 64]}, False),
        ({"alone": True}, False),
        ({"writes": [8, 8], "count": 3}, True),
        ({"writes": [8, 8], "count": 2}, False),
    ],
    ids=[
        "an index",
        "the rest is a fifteenth of it",
        "it may have been made before",
        "hardly any time",
        "in place",
        "it is sent",
        "a row of it is written",
        "something else is written",
        "a model is trained",
        "it is joined with nothing",
        "it is worked on again afterwards",
        "a request has nothing of its own",
        "three requests",
        "two",
    ],
)
def test_what_no_request_changes(changed: dict[str, object], found: bool) -> None:
    plan = searching(**changed)  # type: ignore[arg-type]
    assert told(plan, "compute-once") is found
    if found:
        first = plan.promises[0]
        assert first.proposal.fix == "compute-once"
        assert "work on the same 1,000,000 x 64 values again, mostly “div”" in first.proposal.title
        assert first.low <= 1.0 < 1.4 < first.expected


@pytest.mark.parametrize(
    ("changed", "result"),
    [
        ({}, True),
        ({"size": 8}, False),
        ({"reader": "aten::item"}, False),
        ({"trains": True}, False),
        ({"between": 4}, False),
        ({"lasts": 6.5}, True),
        ({"lasts": 7.0}, False),
        ({"reader": ""}, False),
    ],
    ids=[
        "a result",
        "one value",
        "a value that decides",
        "a model is trained",
        "two places",
        "short work",
        "more work",
        "no operators",
    ],
)
def test_a_result_that_leaves_the_gpu_is_not_taken_away(changed: dict[str, object], result: bool) -> None:
    plan = searching(**changed)  # type: ignore[arg-type]
    assert told(plan, "read-results-later") is result
    if result:
        assert not told(plan, "remove-read-backs")
        assert plan.promises[-1].proposal.redesign
        assert plan.promises[-1].low <= 1.0
