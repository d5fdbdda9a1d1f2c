"""Tables of torch.profiler: what is told of the DataLoader, of phases of a step, and of rows grouped by shapes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parsers.model import ResultColumn, ResultTable
from parsers.model.results import Cell, TimeOf
from parsers.table_totals import totals_of
from tests.rules.test_printed_times import of, told

TORCH = (
    "Name",
    "Self CPU %",
    "Self CPU",
    "CPU total %",
    "CPU total",
    "Self CUDA",
    "Self CUDA %",
    "# of Calls",
)


def of_torch(*rows: tuple[str, float, float, float], shapes: bool = False) -> ResultTable:
    """Rows of torch.profiler: name, ms of the CPU, with what it calls, and of the GPU, of 100 ms each."""
    made: list[tuple[Cell, ...]] = [
        (name, own, own, whole, whole, gpu, gpu, 10.0, *(("[[2, 2]]",) if shapes else ()))
        for name, own, whole, gpu in rows
    ]
    header = (*TORCH, *(("Input Shapes",) if shapes else ()))
    units = ("", "%", "ms", "%", "ms", "ms", "%", "", "")
    columns = tuple(
        ResultColumn(title.removesuffix(" %"), unit) for title, unit in zip(header, units, strict=False)
    )
    return ResultTable("Operators", columns, tuple(made), totals=totals_of(header, made))


OPERATORS = (("aten::mm", 40.0, 40.0, 60.0), ("aten::add", 20.0, 20.0, 40.0))


@pytest.mark.parametrize(
    ("again", "whole"),
    [
        (OPERATORS, "100 ms"),
        ((*OPERATORS, ("aten::relu", 30.0, 30.0, 0.0)), "100 ms"),
        (
            (("aten::mm", 20.0, 20.0, 0.0), ("other::a", 20.0, 20.0, 0.0), ("other::b", 1.0, 1.0, 0.0)),
            "200 ms",
        ),
    ],
)
def test_the_same_rows_grouped_by_shapes_count_once(
    again: tuple[tuple[str, float, float, float], ...], whole: str
) -> None:
    _, account = told(of_torch(*OPERATORS), of_torch(*again, shapes=True))
    assert f"The CPU worked for {whole} in all" in account


@pytest.mark.parametrize(("whole", "told_as"), [(100.0, "100 ms"), (101.9, "100 ms"), (103.0, "203 ms")])
def test_tables_of_one_run_are_those_that_state_the_same_whole(whole: float, told_as: str) -> None:
    first, other = (
        replace(
            table, totals=tuple(replace(each, whole=stated) for each in table.totals if each.of is TimeOf.CPU)
        )
        for table, stated in (
            (of_torch(*OPERATORS), 100.0),
            (of_torch(("other::a", 20.0, 20.0, 0.0), shapes=True), whole),
        )
    )
    assert f"The CPU worked for {told_as} in all" in told(first, other)[1]


def test_a_kernel_is_told_without_its_declaration() -> None:
    kernel = "void at::native::im2col_kernel<float>(long, float co..."
    assert (
        told(of("ms", TimeOf.GPU, (kernel, 50.0, 100.0)))[0] == "100 % of the GPU's time is in im2col_kernel"
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("backward_pass", "The CPU works for 100 ms, the GPU for 50.0 ms"),
        ("Optimizer.step#SGD.step", "The CPU works for 100 ms, the GPU for 50.0 ms"),
        ("ProfilerStep*", "The CPU works for 100 ms, the GPU for 50.0 ms"),
        ("aten::batch_norm", "40 % of the CPU's time is in aten::batch_norm"),
        ("MyFunction", "40 % of the CPU's time is in MyFunction"),
    ],
)
def test_a_phase_of_a_step_is_not_told_for_an_operator(name: str, title: str) -> None:
    cpu = of("ms", TimeOf.CPU, (name, 40.0, 40.0), ("aten::add", 10.0, 10.0))
    assert told(cpu, of("ms", TimeOf.GPU, ("gemm", 50.0, 100.0)))[0] == title


def test_a_phase_of_a_step_is_told_where_no_gpu_is_compared_with_it() -> None:
    assert (
        told(of("ms", TimeOf.CPU, ("train_step", 40.0, 40.0)))[0] == "40 % of the CPU's time is in train_step"
    )


LOADER = "enumerate(DataLoader)#_{}DataLoaderIter._..."


@pytest.mark.parametrize(
    ("loader", "own", "title"),
    [
        ("SingleProcess", 10.0, "41 % of the CPU's time is in the DataLoader, with what it calls"),
        ("SingleProcess", 36.0, "41 % of the CPU's time is in the DataLoader, with what it calls"),
        ("SingleProcess", 37.0, "37 % of the CPU's time is in the DataLoader"),
        ("MultiProcessing", 41.0, "41 % of the CPU's time is in the wait for the DataLoader's workers"),
    ],
)
def test_the_loader_is_told_with_what_it_calls(loader: str, own: float, title: str) -> None:
    said, account = told(of_torch((LOADER.format(loader), own, 41.0, 0.0), ("aten::mm", 35.0, 35.0, 1.0)))
    assert said == title
    assert ("With what it calls: 41 % in the DataLoader" in account) is title.endswith("calls")


@pytest.mark.parametrize(("whole", "is_told"), [(40.0, True), (39.0, False)])
def test_a_loader_that_takes_less_than_an_operator_is_not_told_first(whole: float, is_told: bool) -> None:
    rows = (LOADER.format("SingleProcess"), 10.0, whole, 0.0), ("aten::mm", 40.0, 40.0, 1.0)
    assert ("DataLoader" in told(of_torch(*rows))[0]) is is_told


@pytest.mark.parametrize(("whole", "is_told"), [(20.0, True), (19.0, False)])
def test_a_loader_that_takes_little_is_not_told_first(whole: float, is_told: bool) -> None:
    rows = [(f"aten::op{number}", 10.0, 10.0, 1.0) for number in range(9)]
    name = LOADER.format("SingleProcess")
    assert ("DataLoader" in told(of_torch((name, 5.0, whole, 0.0), *rows))[0]) is is_told


@pytest.mark.parametrize(
    ("row", "is_told"),
    [
        (("aten::select", 5.0, 5.0, 0.0), True),
        (("aten::select", 5.0, 5.0, 0.1), False),  # it starts nothing on the GPU
        (("aten::cat", 5.0, 5.0, 0.1), True),
        (("aten::cat", 5.0, 5.0, -0.1), False),
    ],
)
def test_times_between_events_are_not_those_of_the_gpu(
    row: tuple[str, float, float, float], is_told: bool
) -> None:
    headline, account = told(of_torch(*OPERATORS, row))
    assert ("The GPU worked for" in account) is is_told
    assert headline == (
        "60 % of the GPU's time is in aten::mm" if is_told else "40 % of the CPU's time is in aten::mm"
    )


ON_GPU = (*TORCH[:-1], "CUDA total", "# of Calls")


@pytest.mark.parametrize(
    ("own", "whole", "title"),
    [
        (19.0, 60.0, "60 % of the GPU's time is in aten::conv2d, with what it calls"),
        (19.0, 49.0, "19 % of the GPU's time is in aten::copy_"),
        (19.0, 91.0, "19 % of the GPU's time is in aten::copy_"),
        (21.0, 60.0, "21 % of the GPU's time is in aten::copy_"),
    ],
    ids=["most of it", "less", "all of it", "another operator has much itself"],
)
def test_where_few_rows_were_printed_the_operator_that_holds_most_of_the_gpus_time_is_told(
    own: float, whole: float, title: str
) -> None:
    rows: list[tuple[Cell, ...]] = [
        ("aten::copy_", 1.0, 1.0, 1.0, 1.0, own, own, own, 10.0),
        ("aten::conv2d", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, whole, 10.0),
        ("model_inference", 1.0, 1.0, 99.0, 99.0, 2.0, 2.0, 80.0, 1.0),
    ]
    units = ("", "%", "ms", "%", "ms", "ms", "%", "ms", "")
    columns = tuple(
        ResultColumn(title.removesuffix(" %"), unit) for title, unit in zip(ON_GPU, units, strict=True)
    )
    assert told(ResultTable("Operators", columns, tuple(rows), totals=totals_of(ON_GPU, rows)))[0] == title
