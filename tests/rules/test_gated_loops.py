"""Loops through time: the recurrent cell stays a loop, what each round convolves is done for all of them."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_item_loops import of_body

CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_f32_cudnn"
PRODUCT = "cutlass_80_tensorop_s16816gemm_f16_128x64"
SIGMOID = "void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda>"
TANH = "void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel_cuda>"


def joined(
    *, sigmoids: int = 2, tanhs: int = 1, products: int = 2, convolutions: int = 4
) -> list[tuple[str, float]]:
    """What joining says and gives of sixteen rounds that take a frame, convolve it, and update a state."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0

        def op(name: str, kernel: str, dims: list[list[int]]) -> None:
            nonlocal at
            trace.shapes(trace.op(at - 1, at + 8, name), dims, ["float"] * len(dims))
            trace.kernels(at, 1, 2, 10, kernel)
            at += 10

        for _number in range(16):
            select = trace.op(at - 1.6, at - 1.2, "aten::select")
            trace.shapes(select, [[8, 16, 3, 64, 64]], ["float"])
            for layer in range(convolutions):
                size, channels = 64 >> layer, (3, 32, 64, 128, 256)
                weight = [channels[layer + 1], channels[layer], 4, 4]
                op("aten::conv2d", CONVOLUTION, [[8, channels[layer], size, size], weight])
            for _ in range(products):
                op("aten::mm", PRODUCT, [[8, 256], [256, 256]])
            for _ in range(sigmoids):
                op("aten::sigmoid", SIGMOID, [[8, 256]])
            for _ in range(tanhs):
                op("aten::tanh", TANH, [[8, 256]])
        trace.kernels(at + 40, 1, 5, 10, "void last_kernel")

    length = 200 + 160 * (sigmoids + tanhs + products + convolutions)
    return [(each.proposal.title, each.expected) for each in of_body(body, length=length)]


def test_only_the_convolutions_of_a_recurrence_are_joined() -> None:
    ((title, gain),) = joined()
    assert title.startswith("Do the convolutions of 16 time steps at once")
    assert 1.3 < gain < 2.0, "five of nine calls of a round remain"


@pytest.mark.parametrize("changed", [{"sigmoids": 1}, {"tanhs": 0}, {"products": 0}])
def test_fewer_gates_are_activations(changed: dict[str, int]) -> None:
    ((title, gain),) = joined(**changed)
    assert title.startswith("Process 16 items at once")
    assert gain > 3.0


def test_a_recurrence_without_convolutions_is_no_list_of_items() -> None:
    assert not joined(convolutions=0)
