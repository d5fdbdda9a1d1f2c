"""What is promised of fewer launches: graphs, compiled steps, fused optimizers, loops that are joined."""

from __future__ import annotations

import pytest

from parsers.model import EventKind
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.gpu_vendor import has_graphs
from rules.fixes.plan import Promise, make_plan
from rules.replay.loops import loops_of
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan, plan_of_body, promised


@pytest.mark.parametrize("training", [False, True])
def test_inference_that_launches_too_slowly_replays_a_graph(training: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        if training:
            trace.region(1, 2, "Optimizer.step#SGD.step")
        trace.kernels(10, 45, 5, 40, "void some_kernel")
        trace.copy(1830, 1832, "DtoH", 1820, bytes=4)
        trace.call(1826, 1840, "cudaStreamSynchronize")

    assert ("replay-cuda-graph" in promised(plan_of_body(body))) is not training


@pytest.mark.parametrize(("launches", "found"), [(20, True), (18, False)])
def test_a_graph_is_worth_it_from_twenty_launches_between_two_waits(launches: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, launches, 5, 40, "void some_kernel")
        trace.copy(20 + 40 * launches, 22 + 40 * launches, "DtoH", 10 + 40 * launches, bytes=4)
        trace.call(16 + 40 * launches, 30 + 40 * launches, "cudaStreamSynchronize")

    assert ("replay-cuda-graph" in promised(plan_of_body(body, length=40 + 40 * launches))) is found


@pytest.mark.parametrize(
    ("more", "every", "found"),
    [(0, 40, True), (2, 40, False), (0, 8, False)],
    ids=["alike", "changing", "busy"],
)
def test_training_replays_a_graph_where_launching_alike_steps_takes_most_of_them(
    more: int, every: float, found: bool
) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.region(1, 2, "Optimizer.step#SGD.step")
        for place in range(44 + more * (index % 2)):
            name = f"void {chr(97 + place % 26)}{chr(97 + place // 26)}_kernel"
            trace.kernels(10 + place * every, 1, 5, every, name)

    assert ("replay-cuda-graph" in promised(plan_of_body(body, length=1 + 48 * every))) is found


@pytest.mark.parametrize(
    ("rounds", "kernel", "found"),
    [
        (10, "gather_kernel", True),
        (7, "gather_kernel", False),
        (10, "vectorized_layer_norm_kernel", False),  # a layer, which needs the one before
    ],
)
def test_the_rounds_of_a_loop_are_joined(rounds: int, kernel: str, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for each in range(rounds):
            for place, name in enumerate(("sort_kernel", kernel, "scan_kernel")):
                trace.kernels(10 + (3 * each + place) * 60, 1, 5, 60, f"void {name}<{each}>")

    made = promised(plan_of_body(body))
    assert ("join-loop" in made) is found


def test_the_rounds_of_a_program_that_is_no_python_may_go_through_time() -> None:
    def made(python: bool) -> dict[str, float]:
        trace = TinyTrace()
        rounds = ["sort_kernel", "gather_kernel", "scan_kernel"] * 10
        for place, name in enumerate(["first_kernel", *rounds, "last_kernel"]):
            trace.operation(place * 60 + 10, place * 60 + 11, f"void {name}", place * 60)
        if python:
            trace.op(0, 1, "aten::sort")
        return promised(make_plan(Analysis(trace.build())))

    assert "join-loop" in made(python=True)
    assert "join-loop" not in made(python=False)


_POINTWISE = "vectorized_elementwise_kernel<1>", "vectorized_elementwise_kernel<2>", "mul_kernel"


@pytest.mark.parametrize(
    ("names", "backward", "tensors"),
    [
        (("Sqrt_Sqrt", "Axpy_Axpy", "aclnnAddcdiv_AddcdivAiCore_Addcdiv"), False, True),
        (("Sqrt_Sqrt", "Axpy_Axpy", "RealDiv_RealDiv"), False, False),
        (_POINTWISE, False, True),
        (_POINTWISE, True, False),
    ],
    ids=["of an optimizer", "of kernels nobody knows", "of pointwise kernels", "in a backward pass"],
)
def test_a_loop_over_the_parameters_of_an_optimizer_is_none_over_items(
    names: tuple[str, ...], backward: bool, tensors: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for each in range(10):
            for place, name in enumerate(names):
                trace.kernels(10 + (3 * each + place) * 60, 1, 5, 60, name)
        trace.kernels(10 + 30 * 60, 1, 5, 60, "last_kernel")
        if backward:
            trace.op(5, 10 + 30 * 60 - 1, "autograd::engine::evaluate_function: SelectBackward0")

    (joined,) = (each for each in plan_of_body(body).promises if each.proposal.fix == "join-loop")
    title = str(joined.proposal.title)
    assert title.startswith("Update all tensors together" if tensors else "Process 10 items at once")


@pytest.mark.parametrize("rounds", [8, 0], ids=["with its forward pass", "alone"])
def test_the_backward_pass_of_a_loop_has_one_round_less(rounds: int) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10
        for count, names in ((rounds, ("pick", "put")), (7, ("turn", "cut", "add"))):
            for _ in range(count):
                for name in names:
                    trace.kernels(at, 1, 5, 60, f"void {name}_kernel")
                    at += 60

    loops = loops_of(Analysis(steps(6, 2600, body).build()))
    assert {each.times for each in loops} == ({8, 7} if rounds else set())


def test_a_memset_before_some_of_its_reductions_does_not_cut_a_loop() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(12):
            at = 10 + place * 100
            if place % 5 == 2:
                trace.operation(at + 3, at + 4, "Memset (Device)", at, kind=EventKind.MEMSET)
            for name in ("reduce", "power", "sum"):
                at += 25
                trace.operation(at + 2, at + 8, f"void {name}_kernel", at)

    assert [each.times for each in loops_of(Analysis(steps(1, 1300, body).build()))] == [12]


def layers_with_experts(trace: TinyTrace, _: int) -> None:
    """Eight layers, each with a loop over eight experts."""
    at = 10.0
    for _layer in range(8):
        for name in ("turn", "cut", "mix", "score", *("pick", "weigh", "put", "scale") * 8):
            trace.kernels(at, 1, 5, 20, f"void {name}_kernel")
            at += 20


def test_a_loop_inside_the_rounds_of_another_is_told_too() -> None:
    loops = loops_of(Analysis(steps(2, 6_000, layers_with_experts).build()))
    assert sorted({each.times for each in loops}) == [8]
    assert {each.body for each in loops} == {4, 36}


@pytest.mark.parametrize(
    ("kernels", "found"),
    [(9, True), (3, True), (2, False), (1, False)],
    ids=["each its own", "three", "two", "all alike"],
)
def test_products_of_different_sizes_are_no_layers_of_a_model(kernels: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _layer in range(2):
            for name in ("turn", "layer_norm", "mix", "score"):
                trace.kernels(at, 1, 5, 20, f"void {name}_kernel")
                at += 20
            for expert in range(9):
                tile = 32 * (1 + expert % kernels)
                for name in (
                    f"sm90_gemm_{tile}x128_tn",
                    "void weigh_kernel",
                    "void put_kernel",
                    "void scale_kernel",
                ):
                    trace.kernels(at, 1, 5, 20, name)
                    at += 20

    assert ("join-loop" in promised(plan_of_body(body))) is found


@pytest.mark.parametrize(
    ("rounds", "pick", "put", "found"),
    [
        (16, "vectorized_gather_kernel", "indexFuncLargeIndex", True),
        (15, "vectorized_gather_kernel", "indexFuncLargeIndex", False),
        (16, "vectorized_gather_kernel", "copy_kernel", False),
        (16, "scatter_gather_elementwise_kernel", "indexing_backward_kernel", True),
        (16, "copy_kernel", "indexFuncLargeIndex", False),
    ],
)
def test_products_between_picking_rows_and_adding_to_others_go_through_items(
    rounds: int, pick: str, put: str, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _item in range(rounds):
            for name in (pick, "sm90_gemm_32x128_tn", "scale_kernel", put):
                trace.kernels(at, 1, 5, 25, f"void {name}")
                at += 25

    assert ("join-loop" in promised(plan_of_body(body))) is found


@pytest.mark.parametrize(
    ("sizes", "own_weights", "found"),
    [
        ([(32, 128), (128, 1)], True, True),
        ([(32, 128), (128, 1)], False, False),
        ([(32, 128), (128, 32)], True, False),
        ([(32, 128), (64, 1)], True, False),
    ],
    ids=["members", "shared weights, as in a recurrence", "layers", "inputs besides"],
)
def test_rounds_that_cannot_be_layers_are_members_of_an_ensemble(
    sizes: list[tuple[int, int]], own_weights: bool, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _member in range(10):
            for (come, go), then in zip(sizes, ("relu", "mean"), strict=True):
                product = trace.op(at, at + 20, "aten::mm")
                trace.shapes(product, [[64, come], [come, go]], ["float", "float"])
                trace.kernels(at + 2, 1, 5, 30, "sm90_gemm_32x128_tn")
                trace.kernels(at + 22, 1, 5, 30, f"void {then}_kernel")
                at += 50
        for _weight in range(20 if own_weights else 2):
            trace.op(at, at + 5, "torch::autograd::AccumulateGrad")
            at += 10
        trace.kernels(at, 1, 5, 10, "void last_kernel")

    assert ("join-loop" in promised(plan_of_body(body))) is found


def joined_loops(
    rounds: tuple[int, ...], names: tuple[tuple[str, ...], ...], pause: float = 40.0
) -> list[Promise]:
    """What is promised of loops in each step, one after another, with so many microseconds of Python between them."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for times, kernels in zip(rounds, names, strict=True):
            for _item in range(times):
                for name in kernels:
                    trace.kernels(at, 1, 5, 40, f"void {name}_kernel")
                    at += 40
            at += pause
            trace.kernels(at, 1, 5, 40, f"void result_of_{kernels[0]}")
            at += 40

    length = 100 + sum(times * 40 * len(each) for times, each in zip(rounds, names, strict=True))
    made = plan_of_body(body, length=length + len(rounds) * (pause + 80))
    return [each for each in made.promises if each.proposal.fix == "join-loop"]


SUPPRESS, WEIGH = ("sort", "gather", "scan"), ("divide", "fold", "spread")


@pytest.mark.parametrize(
    ("rounds", "names", "titles"),
    [
        ((12, 12), (SUPPRESS, SUPPRESS), ["Process 12 items at once: a loop of 12 iterations makes 66 "]),
        (
            (12, 16),
            (SUPPRESS, SUPPRESS),
            ["Process up to 16 items at once: loops of 12 to 16 iterations make 78 "],
        ),
        ((12, 16), (SUPPRESS, WEIGH), ["Process 12 items at once", "Process 16 items at once"]),
        ((12, 12), (SUPPRESS, WEIGH), ["Process 12 items at once: a loop of 12 iterations makes 66 "]),
        ((12, 16, 16, 20), (SUPPRESS, SUPPRESS, WEIGH, WEIGH), ["Process up to 20 items at once"]),
    ],
    ids=["one length", "lists of two lengths", "two lists", "one list twice", "through another loop"],
)
def test_loops_over_lists_of_several_lengths_are_one_cause_where_their_rounds_are_alike(
    rounds: tuple[int, ...], names: tuple[tuple[str, ...], ...], titles: list[str]
) -> None:
    found = sorted(each.proposal.title for each in joined_loops(rounds, names))
    assert len(found) == len(titles)
    assert all(title.startswith(begin) for title, begin in zip(found, titles, strict=True))


def test_python_between_the_loops_over_one_list_may_be_gone_with_them() -> None:
    (short,) = joined_loops((12, 12), (SUPPRESS, WEIGH), pause=40)
    (long,) = joined_loops((12, 12), (SUPPRESS, WEIGH), pause=800)
    assert long.high / long.expected > 1.2 * short.high / short.expected
    (alone,) = joined_loops((12,), (SUPPRESS,), pause=800)
    assert alone.high / alone.expected == pytest.approx(short.high / short.expected, rel=0.15)


def test_items_that_fill_little_of_the_gpu_may_take_less_of_it_together() -> None:
    def most(blocks: int) -> float:
        def body(trace: TinyTrace, _: int) -> None:
            at = 10.0
            for _item in range(16):
                for name in ("sort_kernel", "gather_kernel", "scan_kernel"):
                    trace.kernels(at, 1, 20, 40, f"void {name}", grid=blocks)
                    at += 40

        return next(each for each in plan_of_body(body).promises if each.proposal.fix == "join-loop").high

    assert most(33) > 1.5 * most(132)
    assert most(132) == pytest.approx(most(264), rel=0.01)


def test_a_loop_that_waits_in_each_round_waits_once_when_it_is_joined() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for each in range(12):
            at = 10 + each * 150
            trace.kernels(at, 1, 5, 6, "void mask_kernel")
            trace.kernels(at + 10, 1, 5, 6, "void pick_kernel")
            trace.copy(at + 26, at + 28, "DtoH", at + 20, bytes=4)
            trace.call(at + 30, at + 100, "cudaStreamSynchronize")

    made = plan_of_body(body)
    joined = next(each for each in made.promises if each.proposal.fix == "join-loop")
    assert joined.expected > 4
    assert {"synchronization", "copy-d2h"} <= {each.value for each in joined.proposal.categories}


@pytest.mark.parametrize(("dispatches", "found"), [(12, True), (8, False)])
def test_operations_that_jax_dispatches_one_by_one_are_compiled(dispatches: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(dispatches):
            trace.region(10 + 100 * place, 80 + 100 * place, "PjitFunction(multiply)")
            trace.kernels(40 + 100 * place, 5, 5, 6, "loop_multiply_fusion")

    made = promised(plan_of_body(body))
    assert ("compile-step-with-jit" in made) is found
    assert "replay-cuda-graph" not in made
    assert made.get("compile-step-with-jit", 4.0) > 3.0


def test_a_graph_that_is_replayed_already_is_not_proposed_again() -> None:
    assert "replay-cuda-graph" not in promised(plan("decode_graph"))


@pytest.mark.parametrize(("launches", "found"), [(120, True), (80, False)])
def test_an_optimizer_with_many_launches_is_fused(launches: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 20, 5, 10, "void some_kernel")
        trace.region(290, 320 + launches * 12, "Optimizer.step#AdamW.step")
        trace.kernels(300, launches, 5, 12, "void some_kernel")

    assert ("fuse-optimizer" in promised(plan_of_body(body))) is found


@pytest.mark.parametrize(
    ("divides", "fix"), [("addcdiv_cuda_kernel", "fuse-optimizer"), ("div_kernel", "join-loop")]
)
def test_without_operators_an_optimizer_is_known_by_its_kernels(divides: str, fix: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(16, 30, "gemm_kernel", 10)
        for each in range(40):
            for place, name in enumerate(("lerp_scalar_kernel", "sqrt_kernel_cuda", divides)):
                kernel = f"vectorized_elementwise_kernel<4, {name}>"
                trace.kernels(60 + (3 * each + place) * 12, 1, 5, 12, kernel)

    made = promised(plan_of_body(body))
    assert {"fuse-optimizer", "join-loop"} & made.keys() == {fix}


@pytest.mark.parametrize(
    ("gpu", "call", "graphs"),
    [
        ("", "cudaLaunchKernel", True),
        ("", "hipModuleLaunchKernel", True),
        ("", "runFunction - job_prep_and_submit_for_execution", False),
        ("ARTEMIS", "zeCommandListAppendLaunchKernel", False),
        ("NVIDIA H200", "some_wrapper", True),
    ],
)
def test_graphs_of_cuda_are_advised_to_those_who_have_them(gpu: str, call: str, graphs: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(50):
            trace.op(place * 40, place * 40 + 39, "aten::add")
            trace.operation(place * 40 + 8, place * 40 + 12, "void add", place * 40 + 2, call=call)

    built = steps(4, 2000, body, into=TinyTrace(gpu=gpu)).build()
    assert has_graphs(built) is graphs
    launching = next(each for each in diagnose(built).findings if each.rule == "launching-too-slowly")
    said = " ".join((launching.explanation, *launching.advice, launching.code))
    assert (" graph" in said or "CUDAGraph" in said) is graphs
    plan = make_plan(Analysis(built))
    assert any(each.id.startswith("replay-cuda-graph") for each in plan.promises) is graphs


@pytest.mark.parametrize(("waits", "found"), [((2_900,), False), ((1_000, 2_900), True)])
def test_a_wait_after_the_last_launch_is_the_recorder_s(waits: tuple[float, ...], found: bool) -> None:
    """Without steps, what is launched next after such a wait is not known: nothing follows it."""
    trace = TinyTrace()
    trace.kernels(10, 30, 30, 20, "void some_kernel")
    trace.kernels(1_400, 30, 30, 20, "void another_kernel")
    trace.operation(2_400, 3_000, "void last_kernel", 2_350)
    for start in waits:
        trace.call(start, start + 300, "cudaDeviceSynchronize")
    plan = make_plan(Analysis(trace.build()))
    assert ("remove-read-backs" in [*promised(plan), *(each.fix for each in plan.once)]) is found


def test_a_model_that_exchanges_gradients_is_compiled_in_pieces() -> None:
    def compiled(region: str) -> Promise:
        def body(trace: TinyTrace, _: int) -> None:
            trace.region(0, 125, region)
            for place in range(20):
                name = "void vectorized_elementwise_kernel<4>"
                trace.operation(20 + place * 98, 116 + place * 98, name, 5 + place * 6)
            trace.call(130, 1985, "cudaDeviceSynchronize")

        return next(one for one in plan_of_body(body).promises if one.proposal.fix == "compile-model")

    alone, exchanging = compiled("forward"), compiled("DistributedDataParallel.forward")
    assert exchanging.expected < 0.8 * alone.expected
    assert exchanging.low < alone.low
    assert exchanging.high > 0.8 * alone.high
