"""Kernels of two recordings matched: renamed, joined, more or fewer of them; where the time went; whose work it was."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, Trace
from rules.comparison.bridge import BUDGET, KINDS, REGIONS
from rules.comparison.compare import Comparison, compare
from rules.comparison.kernel_rows import KernelChange, Match
from rules.comparison.same_work import Answer
from tests.rules.builder import AUTOGRAD, TinyTrace, steps

GEMM, BF16_GEMM = "void cutlass_80_simt_sgemm_128x64", "nvjet_sm90_tst_128x128_64x6_h_bz"
ADD, MUL = "void at::native::vectorized_elementwise_kernel<4, add>", "void at::native::unrolled_mul_kernel<4>"
FUSED = "triton_poi_fused_add_mul_0"
LAYERS = 6

Layer = list[tuple[str, str, float]]  # (operator, kernel, us)


def program(layer: Layer, *, dims: str = "[[32, 64]]", count: int = 5, gpus: int = 1, more: int = 0) -> Trace:
    """Steps of LAYERS equal layers; each kernel is launched by an operator of its own."""
    trace = TinyTrace()

    def body(trace: TinyTrace, _: int) -> None:
        at = 0.0
        for number in range(LAYERS):
            for operator, kernel, us in layer + ([] if number else [("aten::add", ADD, 20.0)] * more):
                op = trace.op(at, at + 9, operator)
                trace.builder.attribute(Attribute.INPUT_DIMS, np.array([op]), trace.builder.string(dims))
                trace.operation(at + 10, at + 10 + us, kernel, at + 2)
                at += 12 + us

    length = LAYERS * sum(12 + us for *_, us in layer) + 32 * more + 20
    for rank in range(gpus):
        trace.rank = rank if gpus > 1 else None
        steps(count, length, body, into=trace)
    return trace.build()


SOUND: Layer = [("aten::mm", GEMM, 100), ("aten::add", ADD, 20), ("aten::mul", MUL, 30)]


def rows(result: Comparison) -> dict[Match, list[KernelChange]]:
    found: dict[Match, list[KernelChange]] = {}
    for each in result.kernels:
        found.setdefault(each.match, []).append(each)
    return found


def test_a_kernel_with_another_name_for_the_same_operator_is_its_counterpart() -> None:
    result = compare(program(SOUND), program([("aten::mm", BF16_GEMM, 10), *SOUND[1:]]))
    (row,) = rows(result)[Match.COUNTERPART]
    assert (row.before, row.after) == ((GEMM,), (BF16_GEMM,))
    assert (row.calls_before, row.calls_after) == (LAYERS, LAYERS)
    assert row.ns_change == pytest.approx(-90_000 * LAYERS)
    assert not rows(result).keys() & {Match.GONE, Match.NEW}


def test_kernels_that_were_fused_are_one_row_with_their_numbers() -> None:
    result = compare(program(SOUND), program([SOUND[0], ("Torch-Compiled", FUSED, 15)]))
    (row,) = rows(result)[Match.JOINED]
    assert set(row.before) == {ADD, MUL}
    assert row.after == (FUSED,)
    assert (row.calls_before, row.calls_after) == (2 * LAYERS, LAYERS)
    assert result.work is not None
    assert result.work.answer is Answer.NEARLY
    assert result.work.reason.startswith("12 kernels a step became 6")
    split = compare(program([SOUND[0], ("Torch-Compiled", FUSED, 15)]), program(SOUND))
    (row,) = rows(split)[Match.JOINED]
    assert (row.calls_before, row.calls_after) == (LAYERS, 2 * LAYERS)


def test_no_kernel_is_listed_as_gone_and_as_new() -> None:
    elsewhere = compare(program(SOUND), program([SOUND[1], SOUND[2], ("aten::linear", GEMM, 99)]))
    names = {side: {each.name for each in rows(elsewhere).get(side, [])} for side in (Match.GONE, Match.NEW)}
    assert not names[Match.GONE]
    assert not names[Match.NEW]
    more = compare(program(SOUND), program(SOUND, more=4))
    (row,) = rows(more)[Match.SAME]
    assert (row.name, row.calls_before, row.calls_after) == (ADD, LAYERS, LAYERS + 4)


def test_whether_the_work_is_the_same_is_told_with_its_reason() -> None:
    def work(after: Trace) -> tuple[Answer, str]:
        found = compare(program(SOUND), after).work
        assert found is not None
        return found.answer, found.reason

    faster: Layer = [(operator, kernel, us * 0.9) for operator, kernel, us in SOUND]
    assert work(program(faster))[0] is Answer.YES
    answer, reason = work(program([("aten::mm", BF16_GEMM, 10), *SOUND[1:]]))
    assert answer is Answer.NO
    assert reason.startswith("another precision: fp32 before and bf16 after")
    answer, reason = work(program(faster, dims="[[64, 64]]"))
    assert answer is Answer.NO
    assert "such as [[32, 64]] before and [[64, 64]] after" in reason
    answer, reason = work(program(faster, dims="[[32, 62]]"))
    assert (answer, reason[:12]) == (Answer.NEARLY, "other shapes")
    assert work(program(SOUND, more=4))[0] is Answer.NEARLY


def test_every_bridge_adds_up_from_before_to_after() -> None:
    before, after = program(SOUND), program([("aten::mm", BF16_GEMM, 10), *SOUND[1:]])
    found = {each.title: each for each in compare(before, after).bridges}
    assert set(found) == {BUDGET, KINDS}
    for bridge in found.values():
        assert bridge.before + sum(
            part.change for part in bridge.parts
        ) + bridge.unexplained == pytest.approx(bridge.after)
        assert abs(bridge.unexplained) < 0.001 * bridge.before
    assert found[KINDS].parts[0].label == "matrix product"
    assert found[KINDS].parts[0].change == pytest.approx(-90_000 * LAYERS, rel=0.01)


def test_a_bridge_by_regions_takes_what_autograd_launches_for_the_backward_pass() -> None:
    def half(us: float) -> Trace:
        def body(trace: TinyTrace, _: int) -> None:
            trace.region(0, 100, "forward")
            trace.kernels(1, 5, 10, 18, GEMM)
            trace.op(100, 100 + 5 * (us + 8), "autograd::engine::evaluate_function: Mm", AUTOGRAD)
            trace.kernels(101, 5, us, us + 8, GEMM, thread=AUTOGRAD)

        return steps(4, 110 + 5 * (us + 8), body).build()

    (bridge,) = [each for each in compare(half(40), half(20)).bridges if each.title == REGIONS]
    change = {part.label: part.change for part in bridge.parts}
    assert change["backward"] == pytest.approx(-100_000, rel=0.05)
    assert abs(change.get("forward", 0.0)) < 1000


def test_more_gpus_are_judged_by_what_they_could_do() -> None:
    result = compare(
        program(SOUND), program([*SOUND, ("aten::mm", "ncclDevKernel_AllReduce_Sum", 40)], gpus=2)
    )
    assert result.scaling is not None
    assert result.scaling.work == 1
    assert 1 < result.scaling.speedup < result.scaling.possible == 2
    assert "because exposed communication takes" in result.scaling.told()
    assert compare(program(SOUND), program(SOUND)).scaling is None


def test_how_much_of_the_communication_is_covered_is_told_where_it_changed() -> None:
    def reduced(at: float) -> Trace:
        def body(trace: TinyTrace, _: int) -> None:
            trace.kernels(0, 5, 90, 100, GEMM)
            trace.operation(at, at + 200, "ncclDevKernel_AllReduce_Sum", at - 6, stream=19)

        return steps(5, 900, body).build()

    work = compare(reduced(600), reduced(200)).work
    assert work is not None
    assert work.answer is Answer.YES
    (told,) = work.differences
    assert re.fullmatch(r"computation covers 9\d % of the communication instead of 0(\.0)? %", told)


def test_a_documented_pair_is_neutral_with_the_counts_that_others_found(shared_data: Path) -> None:
    folder = shared_data / "public" / "nsys"
    before, after = (
        open_trace([folder / f"GindaChen_nsys-ai__mfu_2gpu_{each}.sqlite"]) for each in ("before", "after")
    )
    result = compare(before, after)
    assert result.verdict.startswith("As fast as before, within 2 %")
    kernels = {each.name.split("(")[0].split("<")[0].split()[-1]: each for each in result.kernels}
    sent = next(each for name, each in kernels.items() if "SendRecv" in name)
    assert (sent.calls_before, sent.calls_after) == (66, 62)
    assert sent.ns_change == pytest.approx(8.34e6, abs=1e4)
    flash = next(each for name, each in kernels.items() if "flash_fwd_kernel" in name)
    assert (flash.calls_before, flash.calls_after) == (68, 60)
    assert flash.ns_change == pytest.approx(-31.56e6, abs=1e4)
    time = next(each for each in result.measures if each.name == "kernel time")
    assert (time.before, time.after) == (pytest.approx(535.200650e6), pytest.approx(488.835406e6))


def test_recordings_without_gpu_work_are_not_asked_for_the_same_work() -> None:
    builder = TinyTrace()
    builder.op(0, 100, "aten::mm")
    trace = builder.build()
    assert compare(trace, trace).work is None
