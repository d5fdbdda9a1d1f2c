"""Causes that one line of a program switches on, each told by its own name and promised as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from rules.fixes.plan import Plan
from rules.wording.words import Reader
from tests.examples import one_of
from tests.opened import planned
from tests.rules.builder import AUTOGRAD, TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

MB = 1_000_000
LENGTH = 4_760
FUNCTION = "autograd::engine::evaluate_function: MmBackward0"


def titles(plan: Plan) -> dict[str, str]:
    return {each.proposal.fix: each.proposal.title for each in plan.promises}


# ---- a round trip over the host ------------------------------------------------------------------------------------


def there_and_back(
    copies: int = 4,
    size: int = 2 * MB,
    back: int = 2 * MB,
    operators: float = 2_000,
    region: str = "",
    loads: bool = False,
    kernel_between: bool = False,
) -> Plan:
    """Copies to the host, operators on the CPU, and copies back, behind some kernels."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 20, 5, 40)
        at = 900.0
        for _copy in range(copies):
            trace.copy(at + 4, at + 200, "DtoH", at, pageable=True, bytes=size, launch_us=205)
            at += 220
        begun = at
        if operators:
            trace.op(at + 20, at + 20 + operators, "aten::_fused_adamw_")
        if region:
            trace.region(at + 10, at + 30 + operators, region)
        at += 50 + operators
        if loads:
            trace.region(begun + 20, at - 10, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        if kernel_between:
            trace.kernels(at, 1, 5, 40)
            at += 50
        for _copy in range(copies):
            trace.copy(at + 4, at + 200, "HtoD", at, pageable=True, bytes=back, launch_us=205)
            at += 220

    return plan_of_body(body, length=LENGTH)


def test_an_optimizer_on_the_cpu_is_one_card_with_all_that_goes_with_it() -> None:
    plan = there_and_back(region="Optimizer.step#AdamW.step")
    assert titles(plan)["keep-on-gpu"].startswith("Update the parameters on the GPU: 8.00 MB go to the host")
    assert not {"copy-less", "move-host-phase", "remove-read-backs"} & set(promised(plan))
    assert promised(plan)["keep-on-gpu"] > 3


def test_other_work_on_the_host_is_not_called_an_optimizer() -> None:
    assert titles(there_and_back())["keep-on-gpu"].startswith(
        "Move the work of aten::_fused_adamw_ to the GPU: 8.00 MB"
    )


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"size": 260_000, "back": 260_000}, True),
        ({"size": 240_000, "back": 240_000}, False),
        ({"operators": 1_100.0}, True),
        ({"operators": 900.0}, False),
        ({"back": 2 * MB + 4}, False),
        ({"kernel_between": True}, False),
        ({"loads": True}, False),
    ],
    ids=[
        "a megabyte",
        "less than a megabyte",
        "a millisecond of operators",
        "hardly any operators",
        "other sizes come back",
        "the GPU works meanwhile",
        "the next batch is sent",
    ],
)
def test_what_is_a_round_trip(changed: dict[str, float], found: bool) -> None:
    plan = there_and_back(**changed)  # type: ignore[arg-type]
    assert ("keep-on-gpu" in promised(plan)) is found
    assert ("copy-less" in promised(plan)) is not found or changed.get("size", MB) < MB


# ---- a round trip through parameters on the CPU ----------------------------------------------------------------------


def parameters_on_the_cpu(
    work: float = 2_000, there: int = 2 * MB, back: int = 2 * MB, inside: bool = True
) -> Plan:
    """A forward pass with parameters from the host, gradients back to it, and an optimizer there."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(14, 200, "HtoD", 10, pageable=True, bytes=back, launch_us=205)
        trace.kernels(230, 20, 5, 40)
        trace.copy(1_054, 1_240, "DtoH", 1_050, pageable=True, bytes=there, launch_us=205)
        trace.kernels(1_270, 2, 5, 40)
        if inside:
            trace.region(1_360, 1_380 + work, "Optimizer.step#Adam.step")
        trace.op(1_370, 1_370 + work, "aten::_foreach_addcdiv_")

    return plan_of_body(body, length=1_450 + work)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"work": 1_300.0}, True),
        ({"work": 900.0}, False),
        ({"there": 3 * MB}, False),
        ({"inside": False}, False),
    ],
    ids=["two milliseconds", "one millisecond", "less", "other sizes come back", "no training"],
)
def test_parameters_on_the_cpu_are_a_round_trip(changed: dict[str, float], found: bool) -> None:
    plan = parameters_on_the_cpu(**changed)  # type: ignore[arg-type]
    assert ("keep-on-gpu" in promised(plan)) is found
    if found:
        assert titles(plan)["keep-on-gpu"].startswith("Update the parameters on the GPU")


def test_how_fast_the_gpu_does_the_work_of_the_host_is_told_as_a_range() -> None:
    (told,) = [each for each in parameters_on_the_cpu(3_000).promises if each.proposal.fix == "keep-on-gpu"]
    assert told.proposal.high is not None
    assert told.high > told.expected


# ---- a compiler that runs again --------------------------------------------------------------------------------------


def compiled_again(steps: int = 6, took: float = 2_000, name: str = "_compile.compile_inner") -> Plan:
    """Six steps of 50 launches; in ``steps`` of them two phases of a compiler, one inside the other."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.kernels(10, 20, 5, 40)
        if index < steps:
            trace.op(900, 900 + took, name)
            trace.op(1_000, 800 + took, "GraphLowering.compile_to_fn (inductor)")
        trace.kernels(2_920, 20, 5, 40)

    return plan_of_body(body, length=3_740)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"steps": 3}, True),
        ({"steps": 2}, False),
        ({"took": 1_200.0}, True),
        ({"took": 900.0}, False),
        ({"name": "Torch-Compiled Region: 0/1", "took": 900.0}, False),
        ({"name": "TorchDynamo Cache Lookup", "took": 900.0}, False),
    ],
    ids=["all steps", "half", "fewer", "a millisecond", "less", "what was compiled runs", "it is looked up"],
)
def test_a_compiler_in_most_steps_is_one_cause(changed: dict[str, float], found: bool) -> None:
    plan = compiled_again(**changed)  # type: ignore[arg-type]
    assert ("compile-once" in promised(plan)) is found


def test_all_phases_of_a_compiler_are_promised_together_and_nowhere_else() -> None:
    plan = compiled_again()
    assert (
        titles(plan)["compile-once"]
        == "Compile once: the compiler runs again in most steps, 1.80 ms in a step"
    )
    assert promised(plan)["compile-once"] > 1.5
    assert not {"move-host-phase", "shorten-host-phase"} & set(promised(plan))


# ---- launches that wait ----------------------------------------------------------------------------------------------


def waiting_launches(
    waiting: int, kernel: float = 50.0, after: float = 10.0, count: int = 20, *, training: bool = False
) -> Plan:
    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        if training:
            trace.region(1, 2, "Optimizer.step#SGD.step")
        for number in range(count):
            took = kernel + 6 + after if number < waiting else 5.0
            name = f"void {chr(97 + number)}_kernel" if training else "void some_kernel"
            trace.operation(at + 6, at + 6 + kernel, name, at, launch_us=took)
            at += kernel + 40

    return plan_of_body(body, length=count * (kernel + 40) + 100)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"waiting": 20}, True),
        ({"waiting": 18}, True),
        ({"waiting": 17}, False),
        ({"waiting": 20, "kernel": 19.0}, False),
        ({"waiting": 20, "kernel": 20.0}, True),
        ({"waiting": 20, "after": -10.0}, False),
        ({"waiting": 20, "after": 101.0, "kernel": 120.0}, False),
    ],
    ids=[
        "all",
        "nine in ten",
        "fewer",
        "short kernels",
        "long enough",
        "before the end",
        "long after the end",
    ],
)
def test_launches_that_wait_for_their_kernel_are_told(given: dict[str, float], found: bool) -> None:
    assert ("launch-ahead" in promised(waiting_launches(**given))) is found  # type: ignore[arg-type]


@pytest.mark.parametrize(("waiting", "graph"), [(25, False), (0, True)])
def test_launches_that_wait_are_mended_before_a_training_step_becomes_a_graph(
    waiting: int, graph: bool
) -> None:
    plan = waiting_launches(waiting, kernel=20.0, after=-5.0 if graph else 10.0, count=25, training=True)
    assert ("replay-cuda-graph" in promised(plan)) is graph


def test_what_waiting_launches_cost_is_the_cpus_time_beside_the_gpus() -> None:
    plan = waiting_launches(20)
    assert "100 % of them wait for their own kernel" in titles(plan)["launch-ahead"]
    assert 1.2 < promised(plan)["launch-ahead"] < 2.0


# ---- anomaly detection -----------------------------------------------------------------------------------------------


def backward(functions: int, asking: int) -> Plan:
    """Functions of the backward pass, of which some ask for NaN in their results."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 5, 40)
        at = 600.0
        for number in range(functions):
            end = at + (190 if number < asking else 60)
            trace.op(at, end, FUNCTION, AUTOGRAD)
            trace.operation(at + 20, at + 30, "void gemm", at + 10, thread=AUTOGRAD)
            if number < asking:
                trace.op(at + 60, at + 90, "aten::isnan", AUTOGRAD)
                trace.operation(at + 72, at + 76, "void isnan_kernel", at + 65, thread=AUTOGRAD)
                trace.op(at + 95, at + 180, "aten::item", AUTOGRAD)
                trace.copy(at + 110, at + 112, "DtoH", at + 100, bytes=1, thread=AUTOGRAD, pageable=True)
                trace.call(at + 115, at + 150, "cudaStreamSynchronize", AUTOGRAD)
            at = end + 5

    return plan_of_body(body, length=700 + 200 * functions)


@pytest.mark.parametrize(
    ("functions", "asking", "found"),
    [(24, 24, True), (40, 20, True), (19, 19, False), (42, 20, False)],
    ids=["all", "half", "too few", "less than half"],
)
def test_anomaly_detection_is_told_by_its_name(functions: int, asking: int, found: bool) -> None:
    plan = backward(functions, asking)
    assert ("stop-checking-for-nan" in promised(plan)) is found
    if found:
        said = f"Turn anomaly detection off: the backward pass checks for NaN {asking} times in a step"
        assert titles(plan)["stop-checking-for-nan"] == said
        assert "remove-read-backs" not in promised(plan)


# ---- sparse optimizers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["SparseAdam", "AdamW"])
def test_a_sparse_optimizer_is_not_told_to_be_fused(optimizer: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.region(5, 5_000, f"Optimizer.step#{optimizer}.step")
        trace.kernels(10, 120, 5, 40)

    made = plan_of_body(body, length=5_100)
    (told,) = [each.proposal for each in made.promises if each.proposal.fix == "fuse-optimizer"]
    is_sparse = optimizer == "SparseAdam"
    assert told.title.startswith("Make the gradients dense" if is_sparse else "Use a fused optimizer")
    assert ("sparse=False" in told.remedy.code_for(Reader())) is is_sparse


# ---- as real programs have them --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "fix", "gave"),
    one_of(3, [
        ("adapt", "keep-on-gpu", 6.26), ("ads", "fuse-optimizer", 1.53),
        ("recipes", "share-key-heads", 2.57), ("clusters", "multiply-for-distances", 2.5),
        ("spectra", "fold-shifts", 1.33), ("leaves", "launch-ahead", 2.45),
        ("shop", "fuse-optimizer", 1.39), ("offload", "keep-on-gpu", 37.2),
        ("table", "copy-together", 5.16), ("topp", "select-before-sorting", 2.41),
        ("sensors", "move-host-phase", 1.67), ("vae", "stop-checking-for-nan", 1.64),
    ]),
)  # fmt: skip
def test_what_is_promised_first_is_what_mending_gave(
    fixtures: Path, program: str, fix: str, gave: float
) -> None:
    first = planned(fixtures / "causes" / f"{program}.pt.trace.json.gz").promises[0]
    assert first.proposal.fix == fix
    assert first.low <= gave <= first.high


def test_checkpointing_is_named_among_other_causes(fixtures: Path) -> None:
    plan = planned(fixtures / "causes" / "tagger.pt.trace.json.gz")
    assert "keep-activations" in promised(plan)


@pytest.mark.parametrize(("program", "gave"), [("weights", (1.35, 1.5, 1.73)), ("tuning", (0.95, 1.05))])
def test_weights_converted_in_each_call_are_promised_what_converting_them_once_gave(
    fixtures: Path, program: str, gave: tuple[float, ...]
) -> None:
    plan = planned(fixtures / "causes" / f"{program}.pt.trace.json.gz")
    (promise,) = [each for each in plan.promises if each.proposal.fix == "convert-once"]
    assert promise.proposal.title.startswith("Convert the weights once: ")
    assert promise.low <= max(gave)
    assert min(gave) <= promise.high
    assert promise.low <= sum(gave) / len(gave) <= promise.high


@pytest.mark.parametrize(
    ("program", "fix", "gave"), [("weights", "share-key-heads", 1.65), ("scores", "shift-labels", 1.33)]
)
def test_copies_with_a_better_form_are_named_beside_what_comes_first(
    fixtures: Path, program: str, fix: str, gave: float
) -> None:
    plan = planned(fixtures / "causes" / f"{program}.pt.trace.json.gz")
    (promise,) = [each for each in plan.promises if each.proposal.fix == fix]
    assert promise.low <= gave <= promise.high


def test_what_a_compiler_would_join_is_told_by_the_programs_own_function(fixtures: Path) -> None:
    plan = planned(fixtures / "causes" / "scores.pt.trace.json.gz")
    title = titles(plan)["compile-model"]
    assert title.endswith(", mostly cross_entropy_loss, “to” and “slice” in forward (words_predicted.py:75)")


def test_launches_that_wait_are_named_where_stacks_were_recorded(fixtures: Path) -> None:
    plan = planned(fixtures / "causes" / "galaxies.pt.trace.json.gz")
    assert titles(plan)["launch-ahead"].startswith(
        "Stop launches from blocking: 100 % of them wait for their own kernel"
    )
