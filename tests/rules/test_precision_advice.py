"""Advice about precision names only what the recorded GPU can do."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.base import Category, Finding
from tests.rules.builder import TinyTrace, steps

SGEMM, DGEMM = "volta_sgemm_64x64_nn", "volta_dgemm_128x64_nn"


def only(category: Category, kernel: str, *, gpu: str, capability: tuple[int, int]) -> Finding:
    trace = TinyTrace(gpu=gpu, capability=capability)

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(1, 4, "aten::mm")
        trace.operation(5, 1000, kernel, 1)

    made = steps(4, 1000, body, into=trace).build()
    (found,) = [each for each in diagnose(made).findings if each.category is category]
    return found


@pytest.mark.parametrize(
    ("gpu", "capability", "named", "not_named"),
    [
        ("Tesla V100-SXM2-32GB", (7, 0), "torch.float16", "allow_tf32"),
        ("Tesla T4", (7, 5), "torch.float16", "bfloat16"),
        ("NVIDIA A100-SXM4-80GB", (8, 0), "set_float32_matmul_precision", "GradScaler"),
        ("NVIDIA H200", (9, 0), "set_float32_matmul_precision", "cudnn"),
        ("AMD Instinct MI300X", (9, 4), "bfloat16", "TF32"),
    ],
)
def test_only_what_the_gpu_knows_is_advised(
    gpu: str, capability: tuple[int, int], named: str, not_named: str
) -> None:
    found = only(Category.NO_TENSOR_CORES, SGEMM, gpu=gpu, capability=capability)
    advice = " ".join(found.advice)
    assert named in advice
    assert not_named not in advice.replace("neither TF32 nor bf16", "")


@pytest.mark.parametrize(
    ("gpu", "times"), [("NVIDIA A100-SXM4-80GB", 8.0), ("NVIDIA H200", 495 / 67), ("a new GPU", 8.0)]
)
def test_the_ceiling_of_double_precision_follows_from_the_gpu_s_rates(gpu: str, times: float) -> None:
    found = only(Category.FP64, DGEMM, gpu=gpu, capability=(9, 0))
    assert found.ceiling_ns / found.window_ns == pytest.approx(0.995 * (1 - 1 / times), abs=0.01)
