"""Rooflines of real kernels, the table of GPUs, and estimates from shapes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from parsers.model import Attribute, EventKind, KernelProfile, Trace
from rules.kernels.gpu_peaks import known_gpus, peaks_of
from rules.kernels.operator_roofs import (
    MEMORY_ROOF,
    estimated_roofline,
    operator_roofs,
    precision_of,
    work_of,
)
from rules.kernels.roofline import (
    Point,
    Roof,
    distance,
    nearest_roof,
    operation_rates,
    precision_in_name,
    roofline,
)
from tests.opened import opened
from tests.rules.kernel_profiles import kernel


@pytest.fixture(scope="session")
def library(fixtures: Path) -> list[KernelProfile]:
    return list(opened(fixtures / "ncu" / "library.raw.csv.gz").kernels)


def test_the_bf16_matrix_product_is_near_the_tensor_roof(library: list[KernelProfile]) -> None:
    near = nearest_roof(library[0])
    assert near is not None
    assert near.roof == "BF16 tensor"
    assert 0.85 < near.share < 1.0
    assert operation_rates(library[0])["BF16 tensor"] == pytest.approx(2 * 4096**3 / 174.9e-6, rel=0.01)


def test_elementwise_kernels_are_near_the_dram_roof(library: list[KernelProfile]) -> None:
    for number in (4, 9):
        near = nearest_roof(library[number])
        assert near is not None
        assert near.roof == "DRAM"
        assert 0.8 < near.share < 1.0


def test_no_kernel_is_above_its_roofs(fixtures: Path, library: list[KernelProfile]) -> None:
    planted = opened(fixtures / "ncu" / "kernels.raw.csv.gz").kernels
    for each in [*library, *planted]:
        drawn = roofline(each)
        for point in drawn.points:
            reached = distance(point, drawn.roofs)
            assert reached is not None
            assert reached.share < 1.02, (each.name, point)


def test_a_copy_has_no_point(library: list[KernelProfile]) -> None:
    assert roofline(library[13]).points == ()
    assert nearest_roof(library[13]) is None


def test_the_lower_roof_counts() -> None:
    roofs = (Roof("DRAM", 1e12, True), Roof("FP32", 10e12, False))
    left = Point("0", "k", "DRAM", "FP32", 2.0, 1e12, 1.0)
    right = Point("0", "k", "DRAM", "FP32", 100.0, 5e12, 1.0)
    assert [each.text for point in (left, right) if (each := distance(point, roofs))] == [
        "50 % of the DRAM roof",
        "50 % of the FP32 roof",
    ]
    assert distance(left, ()) is None


def test_without_peaks_in_the_report_the_table_is_used() -> None:
    bare = kernel({"dram__bytes.sum": 1e8, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1e9,
                   "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 0,
                   "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 0})  # fmt: skip
    drawn = roofline(bare)
    dram = drawn.roof("DRAM")
    assert dram is not None
    assert (dram.peak, dram.from_table) == (4.8e12, True)
    (point,) = drawn.points
    assert point.intensity == pytest.approx(20.0)
    assert point.rate == pytest.approx(2e9 / 100e-6)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL"),
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200"),
        ("NVIDIA B200", "NVIDIA B200"),
        ("NVIDIA H20", "NVIDIA H20"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB SXM"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB PCIe"),
        ("Tesla V100-SXM2-16GB", "NVIDIA V100 SXM2"),
        ("Tesla T4", "NVIDIA T4"),
        ("NVIDIA A10G", "NVIDIA A10G"),
        ("NVIDIA A10", "NVIDIA A10"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("NVIDIA L40", "NVIDIA L40"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("AMD Instinct MI210", "AMD Instinct MI210"),
        ("AMD Instinct MI250X", "AMD Instinct MI250X, one of its two dies"),
        ("AMD Instinct MI300X OAM", "AMD Instinct MI300X"),
    ],
)
def test_devices_are_found_by_the_names_that_recordings_state(device: str, name: str) -> None:
    peaks = peaks_of(device)
    assert peaks is not None
    assert peaks.name == name


def test_unknown_devices_have_no_peaks() -> None:
    assert peaks_of("NVIDIA X1") is None
    assert peaks_of(None) is None


def test_the_table_of_gpus_is_plausible() -> None:
    assert len(known_gpus()) >= 30
    for _, peaks in known_gpus():
        rates = peaks.operations
        assert 2e11 < peaks.bandwidth < 1e13
        assert rates["fp64"] <= rates["fp32"] * 1.05 <= rates["fp16"] * 1.05
        assert rates.get("fp8", rates["fp16"]) >= rates["fp16"]
        assert peaks.source


@pytest.mark.parametrize(
    ("name", "precision"),
    [("nvjet_sm90_tst_64x8", "bf16"), ("ampere_fp16_s16816gemm", "fp16"), ("ampere_s1688tf32gemm", "tf32")],
)
def test_precisions_in_names(name: str, precision: str) -> None:
    assert precision_in_name(name) == precision


@pytest.mark.parametrize(
    ("dtype", "kernel", "precision"),
    [
        ("", "ampere_sgemm_128x64_nn", "fp32"),
        ("", "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4", "fp32"),
        ("", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage3_tensor16x8x8", "tf32"),
        ("", "ampere_s1688gemm_128x128_nn", "tf32"),
        ("", "ampere_bf16_s16816gemm_bf16_128x64_nn", "bf16"),
        ("", "ampere_fp16_s16816gemm_fp16_128x64_nn", "fp16"),
        ("", "gemm", "fp16"),
        ("c10::BFloat16", "ampere_sgemm_128x64_nn", "bf16"),
    ],
)  # fmt: skip
def test_the_kernel_s_name_tells_the_precision_of_a_product_whose_type_was_not_recorded(
    dtype: str, kernel: str, precision: str
) -> None:
    assert precision_of(dtype, kernel) == precision


@pytest.mark.parametrize(
    ("name", "dims", "concrete", "expected"),
    [
        ("aten::mm", "[[4096, 3072], [3072, 9216]]", (), 2 * 4096 * 3072 * 9216),
        ("aten::addmm", "[[9216], [4096, 3072], [3072, 9216], [], []]", (), 2 * 4096 * 3072 * 9216),
        ("aten::bmm", "[[8, 10, 20], [8, 20, 30]]", (), 2 * 8 * 10 * 20 * 30),
        ("aten::_scaled_dot_product_flash_attention", "[[4, 16, 1024, 64], [4, 16, 512, 64], [4, 16, 512, 64]]", (),
         4 * 4 * 16 * 1024 * 512 * 64),
        ("aten::_flash_attention_forward", "[[4, 1024, 16, 64], [4, 512, 16, 64], [4, 512, 16, 64]]", (),
         4 * 4 * 16 * 1024 * 512 * 64),
        ("aten::convolution", "[[1, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]",
         ("", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"), 2 * 64 * 112 * 112 * 3 * 7 * 7),
        ("aten::convolution", "[[1, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]",
         ("", "", "", "[0, 0]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"), None),
        ("aten::convolution_backward", "[[1, 64, 112, 112], [1, 3, 224, 224], [64, 3, 7, 7]]", (),
         4 * 64 * 112 * 112 * 3 * 7 * 7),
        ("aten::mm", "[[4096, 3072], [9, 9]]", (), None),
        ("aten::mm", "not json", (), None),
        ("aten::mm", "[]", (), None),
        ("aten::relu", "[[1, 2]]", (), 0),
        ("aten::new_idea", "[[1, 2]]", (), None),
        ("aten::_scaled_dot_product_flash_attention", "[[4, 16, 1024, 64], [4, 16, 512, 64], [4, 16, 512, 64], [], []]",
         ("", "", "", "0.", "True"), 2 * 4 * 16 * 1024 * 512 * 64),
        ("aten::convolution_backward", "[[1, 64, 112, 112], [1, 3, 224, 224], [64, 3, 7, 7]]",
         ("",) * 10 + ("[False, True, False]",), 2 * 64 * 112 * 112 * 3 * 7 * 7),
    ],
)  # fmt: skip
def test_operations_of_operators(
    name: str, dims: str, concrete: tuple[str, ...], expected: float | None
) -> None:
    work = work_of(name, dims, values=lambda: concrete)
    assert (work.operations if work else None) == expected


HALF, SINGLE, INDEX = '"c10::BFloat16"', '"float"', '"long int"'


@pytest.mark.parametrize(
    ("name", "dims", "types", "concrete", "moved"),
    [
        ("aten::add", "[[8, 16], [16], []]", f"[{SINGLE}, {SINGLE}, {SINGLE}]", (), 4 * (128 + 16 + 128)),
        ("aten::copy_", "[[8, 16], [8, 16]]", f"[{HALF}, {SINGLE}]", (), 128 * 6),
        ("aten::eq", "[[8, 16], [8, 16]]", f"[{SINGLE}, {SINGLE}]", (), 128 * 9),
        ("aten::fill_", "[[8, 16], []]", f"[{HALF}]", (), 128 * 2),
        ("aten::sum", "[[8, 16], []]", f"[{HALF}]", (), 128 * 2),
        ("aten::cat", "[[[8, 16], [2, 16]], []]", '["TensorList", "Scalar"]', (), 4 * 2 * 160),
        ("aten::_softmax_backward_data", "[[8, 16], [8, 16]]", f"[{HALF}, {HALF}]", (), 128 * 6),
        ("aten::upsample_bilinear2d", "[[2, 3, 4, 4], []]", f"[{SINGLE}]", ("", "[8, 16]"), 4 * 6 * (16 + 128)),
        ("aten::upsample_bilinear2d_backward", "[[2, 3, 8, 16], []]", f"[{SINGLE}]", ("", "[8, 16]", "[2, 3, 4, 4]"),
         4 * 6 * (128 + 16)),
        ("aten::upsample_bilinear2d_backward", "[[2, 3, 8, 16], []]", f"[{SINGLE}]", (), None),
        ("aten::max_pool2d_with_indices_backward",
         "[[2, 3, 4, 4], [2, 3, 8, 8], [], [], [], [], [], [2, 3, 4, 4]]",
         f'[{HALF}, {HALF}, "", "", "", "", "", {INDEX}]', (), 96 * 2 + 96 * 8 + 384 * 2),
        ("aten::embedding", "[[1000, 16], [5, 7]]", f"[{HALF}, {INDEX}]", (), 35 * (8 + 2 * 16 * 2)),
        ("aten::embedding_dense_backward", "[[5, 7, 16], [5, 7], []]", f"[{HALF}, {INDEX}]", ("", "", "1000"),
         35 * (16 * 2 + 8) + 1000 * 16 * 2),
        ("aten::index_add_", "[[9, 16], [], [35], [35, 16]]", f'[{HALF}, "", {INDEX}, {HALF}]', (),
         35 * 8 + 35 * 16 * 2 + 2 * 9 * 16 * 2),
        ("aten::gather", "[[1000, 16], [], [35, 16]]", f'[{HALF}, "", {INDEX}]', (), 560 * (8 + 2 * 2)),
        ("aten::index_select", "[[1000, 16], [], [35]]", f'[{HALF}, "", {INDEX}]', ("", "0", ""), 35 * (8 + 2 * 32)),
        ("aten::_cdist_forward", "[[2, 30, 3], [2, 50, 3], []]", f"[{SINGLE}, {SINGLE}]", (), 4 * (480 + 2 * 30 * 50)),
        ("aten::_cdist_forward", "[[30], [50], []]", f"[{SINGLE}, {SINGLE}]", (), None),
        ("aten::index", "[[1000, 16], [[1000, 16]]]", f'[{HALF}, "TensorList"]', (), None),
        ("aten::_foreach_add_", "[[[8, 16], [4]], [[8, 16], [4]]]", '["TensorList", "TensorList"]', (), 4 * 3 * 132),
        ("triton_poi_fused_add_0", "[[8, 16], [8, 16], []]", f"[{HALF}, {SINGLE}]", (), 128 * 6),
        ("aten::mm", "[[8, 16], [16, 32]]", f"[{HALF}, {HALF}]", (), 2 * (8 * 16 + 16 * 32 + 8 * 32)),
    ],
)  # fmt: skip
def test_bytes_of_operators(
    name: str, dims: str, types: str, concrete: tuple[str, ...], moved: float | None
) -> None:
    work = work_of(name, dims, types, values=lambda: concrete)
    assert (work.moved if work else None) == moved


def test_a_type_that_was_not_recorded_is_told_by_the_kernel() -> None:
    works = [
        work_of("aten::add", "[[8, 16]]", "", kernel)
        for kernel in ("add<c10::BFloat16>", "add<double>", "add")
    ]
    assert [work and work.moved for work in works] == [512, 2048, 1024]


def test_operators_of_a_real_run_and_their_roofs(shared_data: Path) -> None:
    trace = opened(shared_data / "real" / "segmentation.pt.trace.json.gz")
    rows = operator_roofs(trace, trace.events.of_kind(EventKind.KERNEL))
    assert sum(row.ns for row in rows) <= int(
        trace.events.duration[trace.events.of_kind(EventKind.KERNEL)].sum()
    )
    slowest = next(row for row in rows if row.name == "aten::upsample_bilinear2d_backward")
    assert (slowest.roof, slowest.calls) == (MEMORY_ROOF, 4)
    assert 0.0005 < slowest.share < 0.001
    assert max(row.share for row in rows) == 1
    assert all(row.rate < 1.5 * row.peak for row in rows if row.is_beyond)


def test_estimates_of_a_real_training_run(shared_data: Path) -> None:
    drawn = estimated_roofline(opened(shared_data / "torch" / "fp32_gemm_fixed.pt.trace.json.gz"))
    assert all(point.estimate for point in drawn.points)
    largest = drawn.points[0]
    assert (largest.precision, largest.level) == ("BF16 tensor", "DRAM")
    reached = distance(largest, drawn.roofs)
    assert reached is not None
    assert 0.5 < reached.share < 1.0


def test_inputs_that_lie_in_the_file_are_fetched_once_for_each_shape(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = opened(shared_data / "torch" / "resnet50_single.pt.trace.json.gz")
    fetched: list[tuple[str, str]] = []
    original = Trace.arguments

    def counted(self: Trace, event: int) -> Mapping[str, Any]:
        fetched.append((self.name(event), self.text_attribute(Attribute.INPUT_DIMS, event)))
        return original(self, event)

    monkeypatch.setattr(Trace, "arguments", counted)
    drawn = estimated_roofline(trace)
    assert len(fetched) == len(set(fetched)) > 10
    assert all(trace.name(point.event) == point.kernel for point in drawn.points)
