"""Rows that are gathered before the work on them, drawn from a shuffle, or sorted to be added up; and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rules.fixes.catalog.gathering import AddRowsByIndex
from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_written_forms import PRODUCT, Called, Program, changed

NODES, EDGES, ROWS = [1000, 64], [8000], [8000, 64]
GATHERED = [
    Called("aten::index_select", (NODES, [], EDGES), 40),
    Called("aten::index_select", (NODES, [], EDGES), 40),
    Called("aten::sub", (ROWS, ROWS, []), 40),
    Called("aten::cat", ([ROWS, ROWS], []), 40),
    Called("aten::linear", ([8000, 128], [64, 128], [64]), 200, PRODUCT),
]
JOINED = [GATHERED[0], GATHERED[1], *GATHERED[3:]]
LOOKED_UP = [
    Called("aten::embedding", ([1000, 64], [8, 1000], [], [], []), 40),
    Called("aten::linear", ([8, 1000, 64], [32, 64], [32]), 200, PRODUCT),
]
IDLE = Called("aten::relu", ([3, 3],))


def is_found(called: Sequence[Called], fix: str = "multiply-before-gathering") -> bool:
    return fix in Program(called).promises()


def left_us(called: Sequence[Called], fix: str, which: str = "expected") -> float:
    """What remains of the time of the operators in a step."""
    program = Program(called)
    plan = plan_of_body(program.body, length=program.length_us)
    (made,) = (each.proposal for each in plan.promises if each.proposal.fix == fix)
    overlay = plan.replay.overlay([getattr(made, which)])
    return float((overlay.duration * overlay.present).sum() / plan.replay.steps / 1_000) - 400


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (GATHERED, True),
        (JOINED, True),
        (LOOKED_UP, True),
        (changed(GATHERED, 0, name="aten::index", shapes=(NODES, [])), True),
        ([JOINED[0], *JOINED[2:]], True),
        ([*GATHERED[:4], Called("aten::to", ([8000, 128],)), GATHERED[4]], True),
        (changed(GATHERED, 2, name="aten::mul"), False),
        ([*GATHERED[:3], Called("aten::abs", (ROWS,)), *GATHERED[3:]], False),
        (changed(LOOKED_UP, 1, name="aten::bmm", shapes=([8, 1000, 64], [8, 64, 32])), False),
        (changed(LOOKED_UP, 1, name="aten::matmul", shapes=([8, 1000, 64], [8, 64, 32])), False),
        ([LOOKED_UP[0], Called("aten::add", ([8, 1000, 64], [1000, 64], []), 9), LOOKED_UP[1]], False),
        ([LOOKED_UP[0], Called("aten::layer_norm", ([8, 1000, 64], [], [64]), 9), LOOKED_UP[1]], False),
        ([Called("aten::relu", (ROWS,), 40), *GATHERED[3:]], False),
    ],
    ids=[
        "a difference beside the row",
        "both ends",
        "rows of a table",
        "indexed",
        "one of the ends, and something else",
        "converted",
        "multiplied by each other",
        "no sum of rows any more",
        "weights of its own for each batch",
        "a matrix for each",
        "something is added",
        "normalised",
        "not gathered",
    ],
)
def test_products_of_gathered_rows(called: Sequence[Called], found: bool) -> None:
    assert is_found(called) is found


@pytest.mark.parametrize(("nodes", "found"), [(4000, True), (4001, False)])
def test_twice_as_many_rows_at_least(nodes: int, found: bool) -> None:
    called = [
        replace(each, shapes=([nodes, 64], [], EDGES)) if "index_select" in each.name else each
        for each in GATHERED
    ]
    assert is_found(called) is found


@pytest.mark.parametrize(("between", "found"), [(8, True), (9, False)])
def test_products_stand_near_to_the_gather(between: int, found: bool) -> None:
    only = [JOINED[0], *[IDLE] * (between + 2), *JOINED[2:]]
    assert is_found(only) is found


@pytest.mark.parametrize(("us", "found"), [(22.0, True), (20.0, False)])
def test_products_and_gathers_take_a_twentieth(us: float, found: bool) -> None:
    few = [Called("aten::relu", ([64, 64],), 1)] * 4
    assert is_found([*few, replace(LOOKED_UP[0], us=0), replace(LOOKED_UP[1], us=us)]) is found


def test_products_of_nodes_are_gathered_and_added() -> None:
    fix = "multiply-before-gathering"
    assert left_us(GATHERED, fix) == pytest.approx(200 / 8 + 40 * 3, rel=0.01)
    assert left_us(JOINED, fix) == pytest.approx(200 / 8 + 40 * 2 + 1.5 * 40 / 2, rel=0.01)
    assert left_us(LOOKED_UP, fix) == pytest.approx(200 / 8 + 40 / 2, rel=0.01)
    one = [JOINED[0], *JOINED[2:]]
    assert left_us(one, fix) == pytest.approx(200 * (0.5 + 0.5 / 8) + 40 + 1.5 * 40 / 2, rel=0.01)


MESSAGES = [
    Called("aten::index", (NODES, []), 100),
    Called("aten::mul", (ROWS, [8000, 1]), 100),
    Called("aten::index_add", (NODES, [], EDGES, ROWS, []), 200),
]
PUT = Called("aten::index_put_", (NODES, [EDGES], ROWS, []), 200)
REDUCED = Called("aten::scatter_reduce", (NODES, [], ROWS, ROWS, [], []), 200)
SCATTERS = "void _scatter_gather_elementwise_kernel<128, 4, at::native::"
SPARSE = "multiply-by-sparse"


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (MESSAGES, True),
        ([MESSAGES[0], MESSAGES[2]], True),
        (changed(MESSAGES, 0, name="aten::index_select", shapes=(NODES, [], EDGES)), True),
        (changed(MESSAGES, 2, name="aten::scatter_add_", shapes=(NODES, [], ROWS, ROWS)), True),
        ([*MESSAGES[:2], PUT], False),
        ([*MESSAGES[:2], replace(PUT, kernel="indexing_backward_kernel_stride_1")], True),
        ([*MESSAGES[:2], replace(REDUCED, kernel=f"{SCATTERS}ReduceMaximum>")], False),
        ([*MESSAGES[:2], replace(REDUCED, kernel=f"{SCATTERS}ReduceAdd>")], True),
        (changed(MESSAGES, 0, shapes=([4000, 64], [])), True),
        (changed(MESSAGES, 0, shapes=([4001, 64], [])), False),
        (changed(MESSAGES, 0, shapes=([1000, 32], [])), False),
        (changed(MESSAGES, 1, shapes=(ROWS, ROWS)), False),
        (changed(MESSAGES, 1, shapes=(ROWS, [64])), True),
        (changed(MESSAGES, 1, name="aten::relu", shapes=(ROWS,)), False),
        ([MESSAGES[0], *[IDLE] * 10, *MESSAGES[1:]], True),
        ([MESSAGES[0], *[IDLE] * 11, *MESSAGES[1:]], False),
        (MESSAGES[:2], False),
        (changed(MESSAGES, 2, shapes=([8, 1000, 64], [], EDGES, [8, 1000, 64], [])), False),
        ([*(replace(each, us=1) for each in MESSAGES[:2]), replace(MESSAGES[2], us=18)], False),
        ([*(replace(each, us=1) for each in MESSAGES[:2]), replace(MESSAGES[2], us=23)], True),
    ],
    ids=[
        "messages times a weight",
        "messages as they are",
        "selected",
        "scattered",
        "put where they belong",
        "put and added",
        "the largest of them",
        "reduced to a sum",
        "twice as many",
        "less than twice as many",
        "another width",
        "by numbers of another row",
        "by a number for each column",
        "no product any more",
        "gathered before",
        "gathered long before",
        "not added up",
        "not rows of a matrix",
        "less than a twentieth of the GPU's time",
        "a twentieth",
    ],
)
def test_messages_along_edges(called: Sequence[Called], found: bool) -> None:
    assert is_found(called, SPARSE) is found


def test_each_gathered_row_is_read_once() -> None:
    """Of seven passes over the rows one remains, and of five without a weight."""
    assert left_us(MESSAGES, SPARSE) == pytest.approx(400 / 7, rel=0.01)
    assert left_us([MESSAGES[0], MESSAGES[2]], SPARSE) == pytest.approx(300 / 5, rel=0.01)
    assert left_us(MESSAGES, SPARSE, "low") == pytest.approx(800 / 7, rel=0.01)
    assert left_us(MESSAGES, SPARSE, "high") == pytest.approx(200 / 7, rel=0.01)


PICTURES = [90, 3, 32, 32]
CLIPS = [
    Called("aten::index", ([10, 3, 32, 32], []), 20),
    Called("aten::conv2d", (PICTURES, [8, 3, 3, 3], [8]), 200, PRODUCT),
    Called("aten::relu", ([90, 8, 32, 32],), 40),
    Called("aten::add", ([90, 8, 32, 32], [90, 8, 32, 32], []), 40),
    Called("aten::flatten", ([90, 8, 32, 32], [], [])),
    Called("aten::layer_norm", ([9, 10, 64], [], [64]), 30),
]
RUN = "run-before-gathering"


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (CLIPS, True),
        (changed(CLIPS, 0, name="aten::index_select", shapes=([10, 3, 32, 32], [], [90])), True),
        (changed(CLIPS, 1, name="aten::relu"), False),
        (changed(CLIPS, 1, name="aten::cumsum"), False),
        (changed(CLIPS, 0, shapes=([45, 3, 32, 32], [])), True),
        (changed(CLIPS, 0, shapes=([46, 3, 32, 32], [])), False),
        (changed(CLIPS, 0, shapes=([10, 4, 32, 32], [])), False),
        ([Called("aten::linear", ([90, 64], [64, 64], []), 9), *[IDLE] * 11, *CLIPS], False),
        ([Called("aten::linear", ([90, 64], [64, 64], []), 9), *[IDLE] * 12, *CLIPS], True),
        ([*CLIPS, Called("ReluBackward0", (PICTURES,), 30, number=7, backward=True)], False),
    ],
    ids=[
        "frames of clips",
        "index_select",
        "no layer",
        "something that looks at other rows",
        "twice as many",
        "less than twice as many",
        "something else comes behind",
        "as many rows right before",
        "as many rows long before",
        "a training",
    ],
)
def test_networks_on_gathered_rows(called: Sequence[Called], found: bool) -> None:
    assert is_found(called, RUN) is found


def test_a_network_stops_where_rows_of_two_kinds_meet() -> None:
    assert left_us(CLIPS, RUN) == pytest.approx(20 / 9 + 200 / 9 + 2 * 40 / 9 + 30, rel=0.1)
    assert left_us(CLIPS, RUN, "low") == pytest.approx(300 / 3 + 30, rel=0.01)
    meets = changed(CLIPS, 3, shapes=([90, 8, 32, 32], [90, 8, 1, 1], []))
    assert left_us([*meets, *[IDLE] * 12], RUN) == pytest.approx(20 / 9 + 200 / 9 + 40 / 9 + 40 + 30, rel=0.1)


SHUFFLED = [
    Called("aten::randperm", (), 100, "randperm_handle_duplicate_keys_kernel"),
    Called("aten::slice", ([100_000], [], [], [], [])),
    Called("aten::index", ([100_000, 3], []), 4, "index_elementwise_kernel"),
    Called("aten::mul", ([4096, 3], [4096, 3]), 4),
]


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (SHUFFLED, True),
        (changed(SHUFFLED, 3, shapes=([10_000, 3],)), True),
        (changed(SHUFFLED, 3, shapes=([10_001, 3],)), False),
        ([*SHUFFLED, SHUFFLED[1]], False),
        ([SHUFFLED[0], *SHUFFLED[2:]], False),
        (changed(SHUFFLED, 2, name="aten::relu"), False),
        ([replace(SHUFFLED[0], us=20), *SHUFFLED[1:]], False),
    ],
    ids=["a few", "a tenth", "more than a tenth", "cut twice", "not cut", "nothing is read", "shuffled soon"],
)
def test_shuffles_of_which_a_few_are_taken(called: Sequence[Called], found: bool) -> None:
    assert is_found(called, "draw-few") is found


@pytest.mark.parametrize(("us", "found"), [(5.0, True), (5.2, False)])
def test_without_shapes_the_time_of_reading_tells(us: float, found: bool) -> None:
    program = Program(changed(SHUFFLED, 2, us=us), shapes=False)
    assert ("draw-few" in program.promises()) is found


def test_a_fiftieth_of_shuffling_stays() -> None:
    assert left_us(SHUFFLED, "draw-few") == pytest.approx(100 / 50 + 8, rel=0.01)


def put(
    us: float = 100.0,
    values: Sequence[int] = (8000, 3),
    sorts: str = "void cub::DeviceRadixSortOnesweepKernel<long>",
) -> Plan:
    """A step that sorts and adds up rows, each for so long, beside 300 us of something else."""

    def body(trace: TinyTrace, _: int) -> None:
        for place in range(10):
            trace.op(8 + 12 * place, 18 + 12 * place, "aten::relu")
            trace.operation(
                20 + 30 * place, 50 + 30 * place, "void vectorized_elementwise_kernel<4>", 10 + 12 * place
            )
        trace.shapes(trace.op(130, 160, "aten::index_put_"), [[500, 3], [], list(values), []], ["float"] * 4)
        trace.operation(320, 320 + us, sorts, 132)
        trace.operation(320 + us, 320 + 2 * us, "indexing_backward_kernel<float>", 146)
        trace.call(170, 330 + 2 * us, "cudaDeviceSynchronize")

    plan = plan_of_body(body, length=350 + 2 * us)
    assert plan.crashed == ()
    return plan


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (put, True),
        (lambda: put(values=(8000, 4)), False),
        (lambda: put(values=(8000,)), False),
        (lambda: put(sorts="vectorized_elementwise_kernel<4>"), False),
        (lambda: put(8.0), True),
        (lambda: put(7.8), False),
    ],
    ids=["rows", "rows of another width", "single values", "nothing is sorted", "a twentieth", "less"],
)
def test_rows_that_are_sorted_to_be_added(plan: object, found: bool) -> None:
    assert callable(plan)
    replay = plan().replay
    assert bool(list(AddRowsByIndex().proposals(replay.analysis, replay))) is found


def test_sorting_goes_and_half_of_adding() -> None:
    plan = put()
    (made,) = (each.proposal for each in plan.promises if each.proposal.fix == "add-rows-by-index")
    took = []
    for change in (made.low, made.expected, made.high):
        assert change is not None
        overlay = plan.replay.overlay([change])
        took.append(float((overlay.duration * overlay.present).sum() / plan.replay.steps / 1_000))
    assert took == pytest.approx([500, 350, 320], rel=0.01)
