"""Copies that come again and again: weights that are swapped in and out, and small copies in a row."""

from __future__ import annotations

import pytest

from parsers.model.names.per_name import named
from parsers.ranks.merge import merge
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.plan import Plan, make_plan
from rules.remedies.engines import directive_advice
from tests.rules.builder import AUTOGRAD, TinyTrace
from tests.rules.test_fixes import plan_of_body, promised
from tests.rules.test_named_causes import titles

# ---- weights that are swapped in and out -----------------------------------------------------------------------------


def swapped(
    layers: int = 4, sizes: tuple[int, ...] = (4_000, 400_000), back: float = 1.0, inside: str = ""
) -> Plan:
    """Layers whose weights come to the GPU before and go back behind each; ``inside`` is a range between the copies."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _layer in range(layers):
            for direction in ("HtoD", "DtoH"):
                for size in sizes:
                    sent = round(size * (back if direction == "DtoH" else 1.0))
                    trace.copy(at + 4, at + 60, direction, at, pageable=True, bytes=sent, launch_us=65)
                    at += 80
                if direction == "HtoD":
                    trace.kernels(at, 2, 5, 10)
                    if inside:
                        trace.region(at, at + 20, inside)
                    at += 20

    return plan_of_body(body, length=layers * (2 * 80 * len(sizes) + 20) + 40)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"layers": 3}, False),
        ({"sizes": (400_000, 400_000)}, False),
        ({"sizes": (4_000, 200_000)}, False),
        ({"back": 0.5}, False),
    ],
    ids=["eight each way", "six", "of one size", "less than a megabyte", "of other sizes"],
)
def test_what_goes_both_ways_again_and_again_is_swapped(changed: dict[str, int], found: bool) -> None:
    told = titles(swapped(**changed)).get("keep-on-gpu", "")  # type: ignore[arg-type]
    assert (
        told.startswith("Leave data that does not change on the GPU: 1.62 MB go to the host and come back")
        is found
    )


@pytest.mark.parametrize(("inside", "found"), [("gloo:all_reduce", True), ("reduce by hand", False)])
def test_what_goes_both_ways_for_a_collective_on_the_cpu_is_exchanged_by_gpus(
    inside: str, found: bool
) -> None:
    (promise,) = (each for each in swapped(inside=inside).promises if each.proposal.fix == "keep-on-gpu")
    proposal = promise.proposal
    assert (
        proposal.title.startswith("Let NCCL exchange tensors between the GPUs: 1.62 MB go to the host")
        is found
    )
    assert (Category.EXPOSED_COMMUNICATION in proposal.categories) is found
    assert ("init_process_group" in str(proposal.remedy)) is found


# ---- averages that the CPU keeps -------------------------------------------------------------------------------------


def averaged(
    copies: int = 16, size: int = 70_000, took: float = 80.0, operator: str = "aten::add_", others: int = 0
) -> Plan:
    """Steps whose copies to the host are each followed by an operator there, but for so many ``others``."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 30, 40)
        at = 450.0
        for number in range(copies + others):
            trace.copy(at + 6, at + 18, "DtoH", at + 2, pageable=True, bytes=size, launch_us=17)
            at += 20
            if number < copies:
                trace.op(at, at + took, operator)
                at += took + 1

    return plan_of_body(body, length=500 + (copies + others) * 20 + copies * (took + 1))


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"copies": 15, "size": 80_000}, False),
        ({"size": 60_000}, False),
        ({"took": 60.0}, False),
        ({"copies": 300, "took": 6.0}, True),
        ({"copies": 300, "took": 4.0}, False),
        ({"operator": "aten::clone"}, False),
        ({"operator": "model.decode"}, False),
        ({"others": 16}, True),
        ({"others": 17}, False),
        ({"others": 16, "size": 60_000}, False),
        ({"size": 15_900_000}, True),
        ({"size": 16_100_000}, False),
    ],
    ids=[
        "sixteen copies of a megabyte",
        "fifteen",
        "less than a megabyte",
        "less than a millisecond",
        "six microseconds each",
        "four",
        "more copies",
        "something else",
        "half of the copies",
        "fewer",
        "less than a megabyte that it computes with",
        "as fast as memory is read",
        "faster",
    ],
)
def test_what_the_cpu_computes_with_copies_stays_on_the_gpu(changed: dict[str, int], found: bool) -> None:
    told = titles(averaged(**changed)).get("keep-on-gpu", "")  # type: ignore[arg-type]
    assert ("go to the host, " in told) is found


def test_the_copies_and_what_is_computed_with_them_go_together() -> None:
    """Of 2.1 ms in a step the kernels' 0.3 ms stay, and 0.1 ms to launch them."""
    (promise,) = (each for each in averaged().promises if each.proposal.fix == "keep-on-gpu")
    assert 3.5 < promise.expected < 7.0
    assert Category.COPY_H2D not in promise.proposal.categories


# ---- what the CPUs of the ranks reduce -------------------------------------------------------------------------------


def reduced(
    takes: float = 3_000.0,
    sent: int = 4_000_000,
    back: int = 4_096,
    inside: str = "gloo:all_reduce",
    launched: int = 0,
    waits: tuple[float, ...] = (0.0,),
    nccl: bool = False,
) -> Plan:
    """Steps with a collective on the CPU behind a copy to it, beside which ``launched`` kernels start."""
    traces = []
    for rank, waiting in enumerate(waits):
        trace = TinyTrace(rank=rank if len(waits) > 1 else None)
        length = takes + max(waits) + 800
        for index in range(6):
            trace.shift = index * length
            trace.step(0, length, f"ProfilerStep#{index}")
            trace.kernels(10, 10, 30, 40)
            if sent:
                trace.copy(430, 500, "DtoH", 420, pageable=True, bytes=sent, launch_us=85)
            at = 510 + max(waits) - waiting
            until = 510 + max(waits) + takes
            trace.region(at, until, inside, thread=AUTOGRAD)
            trace.kernels(520, launched, 5, takes / max(launched, 1))
            if back:
                trace.copy(until + 10, until + 14, "HtoD", until + 5, pageable=True, bytes=back, launch_us=12)
            if nccl:
                trace.collective(until + 40, until + 60, until + 25)
            trace.kernels(until + 70, 5, 30, 40)
        traces.append(trace.build())
    plan = make_plan(Analysis(merge(traces) if len(traces) > 1 else traces[0]))
    assert plan.crashed == ()
    return plan


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"back": 0}, True),
        ({"sent": 4}, True),
        ({"takes": 1_010.0}, True),
        ({"takes": 990.0}, False),
        ({"sent": 0}, False),
        ({"inside": "reduce by hand"}, False),
        ({"launched": 60}, False),
    ],
    ids=[
        "a mean comes back",
        "nothing comes back",
        "a single value",
        "a millisecond",
        "less",
        "of data that was on the CPU",
        "no collective",
        "the GPU gets work meanwhile",
    ],
)
def test_a_collective_that_the_program_waits_for_on_the_cpu_is_left_to_the_gpus(
    changed: dict[str, object], found: bool
) -> None:
    plan = reduced(**changed)  # type: ignore[arg-type]
    told = titles(plan).get("keep-on-gpu", "")
    assert told.startswith("Let NCCL exchange tensors between the GPUs: ") is found
    if found:
        assert "go to the host, " in told
        assert "copy-less" not in promised(plan)
        assert "move-host-phase" not in promised(plan)


@pytest.mark.parametrize(("each", "found"), [(55.0, True), (45.0, False)])
def test_a_collective_of_fifty_microseconds_is_waited_for(each: float, found: bool) -> None:
    """A step has thirty of them, each between a copy to the CPU and one back."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _round in range(30):
            trace.kernels(at, 2, 5, 10)
            trace.copy(at + 32, at + 36, "DtoH", at + 22, pageable=True, bytes=4_096, launch_us=16)
            trace.region(at + 40, at + 40 + each, "gloo:all_reduce")
            trace.copy(at + 48 + each, at + 50 + each, "HtoD", at + 42 + each, pageable=True, bytes=4_096)
            at += 60 + each

    told = titles(plan_of_body(body, length=40 + 30 * (60 + each)))
    assert told.get("keep-on-gpu", "").startswith("Let NCCL exchange tensors") is found


def test_what_a_rank_waits_for_others_stays_unless_collectives_of_the_gpus_show_it() -> None:
    gains = [
        next(
            each.expected
            for each in reduced(waits=(0.0, 3_000.0), nccl=nccl).promises
            if each.proposal.fix == "keep-on-gpu"
        )
        for nccl in (False, True)
    ]
    assert gains[0] < 2.1  # of 7 ms a rank waits 3 for the other one, and the collective takes 3
    assert gains[1] > 3.0


# ---- small copies in a row -------------------------------------------------------------------------------------------


def copies_in_a_row(
    direction: str, often: int = 20, size: int = 256, work: bool = False, apart: float = 25.0
) -> Plan:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 20, 5, 15)
        at = 320.0
        for _copy in range(often):
            trace.copy(at + 4, at + 6, direction, at, pageable=True, bytes=size)
            trace.call(at + 6, at + 10, "cudaStreamSynchronize")
            at += 12 + apart
            if work:
                trace.kernels(at, 1, 5, 10)
                at += 10
        trace.kernels(at, 20, 5, 15)

    return plan_of_body(body, length=640 + often * (22 + apart))


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"often": 16}, True),
        ({"often": 15}, False),
        ({"size": 65_536}, True),
        ({"size": 65_537}, False),
        ({"work": True}, False),
    ],
    ids=["sixteen", "fifteen", "64 kB", "more", "the GPU works between them"],
)
def test_small_copies_in_a_row_are_sent_as_one(changed: dict[str, int], found: bool) -> None:
    plan = copies_in_a_row("HtoD", **changed)  # type: ignore[arg-type]
    assert ("copy-together" in promised(plan)) is found
    if found:
        assert titles(plan)["copy-together"].startswith(
            f"Send {changed.get('often', 20)} small copies as one"
        )
        assert "remove-read-backs" not in promised(plan)


def test_what_is_done_between_the_copies_makes_the_promise_of_one_vague() -> None:
    near, apart = (
        next(
            each
            for each in copies_in_a_row("HtoD", apart=us).promises
            if each.proposal.fix == "copy-together"
        )
        for us in (2.0, 100.0)
    )
    assert apart.expected > near.expected
    assert apart.high / apart.low > near.high / near.low


def test_the_time_between_values_that_are_read_in_a_row_falls_away() -> None:
    row, single = (promised(copies_in_a_row("DtoH", often=often))["remove-read-backs"] for often in (16, 15))
    assert row > 1.2 * single


# ---- arrays that directives map for each loop -----------------------------------------------------------------------


def mapped(kernel: str, size: int = 2_000_000, back: int = 2_000_000, length: float = 700) -> Plan:
    """A loop whose arrays go to the GPU before it and come back behind it, in each step."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(10, 210, "HtoD", 5, pageable=True, bytes=size, launch_us=210)
        trace.kernels(225, 10, 4, 20, kernel)
        trace.copy(440, 640, "DtoH", 432, pageable=True, bytes=back, launch_us=210)

    return plan_of_body(body, length=length)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"kernel": "nvkernel_solve_F1L204_2"}, True),
        ({"kernel": "__omp_offloading_3d_solve_l57"}, True),
        ({"kernel": "solve"}, False),
        ({"kernel": "nvkernel_solve_F1L204_2", "size": 500_000, "back": 500_000}, False),
        ({"kernel": "nvkernel_solve_F1L204_2", "back": 1_000_000}, False),
    ],
    ids=["nvc", "clang", "own copies", "less than a megabyte", "half of it comes back"],
)
def test_arrays_that_directives_copy_for_each_loop_stay_on_the_gpu(
    changed: dict[str, str], found: bool
) -> None:
    told = titles(mapped(**changed))  # type: ignore[arg-type]
    assert (
        told.get("keep-on-gpu", "").startswith("Keep the arrays on the GPU from loop to loop: 2.00 MB")
        is found
    )
    assert ("copy-less" in told) is not found


def test_all_copies_of_such_a_loop_are_promised_together_and_what_the_cpu_does_besides_stays() -> None:
    nvc = "nvkernel_solve_F1L204_2"
    assert promised(mapped(nvc))["keep-on-gpu"] > 3
    assert promised(mapped(nvc, length=2_700))["keep-on-gpu"] < 1.5


@pytest.mark.parametrize(
    ("times", "kernels", "size", "told"),
    [
        (3, 60, 1_000_000, True),
        (2, 40, 1_000_000, False),
        (3, 61, 1_000_000, False),
        (60, 60, 8, False),  # what a reduction gives
    ],
)
def test_a_region_is_advised_where_loops_bring_their_arrays_again_and_again(
    times: int, kernels: int, size: int, told: bool
) -> None:
    trace = TinyTrace()
    for number in range(kernels):
        trace.operation(100 * number, 100 * number + 20, "nvkernel_solve_F1L204_2", 100 * number - 9)
    for number in range(times):
        for direction, later in (("HtoD", 30), ("DtoH", 60)):
            at = 100 * number + later
            trace.copy(at, at + 20, direction, at - 5, pageable=True, bytes=size)
    assert bool(directive_advice(trace.build())) is told


# ---- what is concatenated --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "grows"),
    [
        ([[[8, 64, 16], [8, 1, 16]], [[8, 65, 16], [8, 1, 16]]], True),
        ([[[8, 64, 16], [8, 1, 16]], [[8, 64, 16], [8, 1, 16]]], False),
        ([[[8, 64, 16], [8, 64, 16]], [[8, 64, 16], [8, 64, 16]]], False),
        ([[[8, 64, 16], [8, 1, 16]], [[8, 66, 16], [8, 1, 16]]], False),
        ([None, None], True),
    ],
    ids=["a cache", "features side by side", "equal parts", "another length", "shapes unknown"],
)
def test_what_is_concatenated_is_copied_again_where_results_grow(
    parts: list[list[list[int]] | None], grows: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place, shapes in enumerate(parts):
            joins = trace.op(10 + place * 30, 35 + place * 30, "aten::cat")
            if shapes is not None:
                trace.shapes(joins, [shapes, []], ["TensorList", "Scalar"])  # type: ignore[list-item]
            begin = 30 + place * 800
            trace.operation(begin, begin + 780, "void CatArrayBatchedCopy<float>", 15 + place * 30)
        for place in range(10):
            trace.operation(1_620 + place * 34, 1_650 + place * 34, "void gemm", 80 + place * 6)
        trace.call(150, 1_990, "cudaDeviceSynchronize")

    assert ("write-in-place" in promised(plan_of_body(body))) is grows


@pytest.mark.parametrize(
    ("shapes", "us", "left_us"),
    [
        ([[8, 64, 16], [8, 16, 16]], 780.0, 780.0 / 5),
        ([[8, 640, 16], [8, 1, 16]], 780.0, 4.0),
        (None, 780.0, 78.0),
    ],
    ids=["a fifth is new", "hardly anything is new", "shapes unknown"],
)
def test_what_is_new_is_still_written(shapes: list[list[int]] | None, us: float, left_us: float) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        parts = shapes
        for place in range(2):
            joins = trace.op(10 + place * 30, 35 + place * 30, "aten::cat")
            if parts is not None:
                trace.shapes(joins, [parts, []], ["TensorList", "Scalar"])  # type: ignore[list-item]
                parts = [[8, parts[0][1] + parts[1][1], 16], parts[1]]
            trace.operation(
                30 + place * 800, 30 + place * 800 + us, "void CatArrayBatchedCopy<float>", 15 + place * 30
            )
        for place in range(10):
            trace.operation(1_620 + place * 34, 1_650 + place * 34, "void gemm", 80 + place * 6)
        trace.call(150, 1_990, "cudaDeviceSynchronize")

    plan = plan_of_body(body)
    (made,) = (each.proposal for each in plan.promises if each.proposal.fix == "write-in-place")
    duration = plan.replay.overlay([made.expected]).duration
    first = named(plan.replay.analysis.trace, plan.replay.device.event, lambda name: "CatArray" in name)
    assert duration[first][0] == pytest.approx(1_000 * left_us, rel=0.02)


def test_features_side_by_side_stay_as_they_are_beside_a_cache() -> None:
    grows = [[[8, 64, 16], [8, 1, 16]], [[8, 65, 16], [8, 1, 16]], [[8, 30, 16], [8, 20, 16]]]

    def body(trace: TinyTrace, _: int) -> None:
        for place, parts in enumerate(grows):
            joins = trace.op(10 + place * 30, 35 + place * 30, "aten::cat")
            trace.shapes(joins, [parts, []], ["TensorList", "Scalar"])  # type: ignore[list-item]
            trace.operation(
                30 + place * 500, 530 + place * 500, "void CatArrayBatchedCopy<float>", 15 + place * 30
            )
        for place in range(10):
            trace.operation(1_620 + place * 34, 1_650 + place * 34, "void gemm", 100 + place * 6)
        trace.call(170, 1_990, "cudaDeviceSynchronize")

    plan = plan_of_body(body)
    (made,) = (each.proposal for each in plan.promises if each.proposal.fix == "write-in-place")
    assert "56 %" in made.title
    duration = plan.replay.overlay([made.expected]).duration
    assert duration.max() == pytest.approx(500_000)
