"""What images that keep the layout of convolutions are promised to gain, by the kernels that are slow in the other."""

from __future__ import annotations

import pytest

from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

CONVERSION = "void cudnn::ops::nchwToNhwcKernel<float, float>(args)"


def gain(kernel: str, conversions: int = 1) -> float:
    """Of a step of twenty such kernels of 50 us, and conversions of 25 us, launched long before they start."""

    def body(trace: TinyTrace, _: int) -> None:
        for place in range(20):
            trace.operation(20 + 50 * place, 70 + 50 * place, kernel, 10 + 7 * place)
        for place in range(conversions):
            trace.operation(1020 + 25 * place, 1045 + 25 * place, CONVERSION, 200 + 7 * place)
        trace.call(300, 1048, "cudaDeviceSynchronize")

    return promised(plan_of_body(body, length=1050)).get("use-channels-last", 1.0)


@pytest.mark.parametrize(
    ("kernel", "faster"),
    [
        ("void at::native::batch_norm_collect_statistics_kernel<float>(args)", True),
        ("void at::native::batch_norm_collect_statistics_channels_last_kernel<float>(args)", False),
        ("void at::native::avg_pool2d_backward_out_cuda_frame<float>(args)", True),
        ("void at::native::avg_pool2d_backward_out_cuda_frame_nhwc<float>(args)", False),
        ("void at::native::upsample_nearest2d_out_frame<float>(args)", True),
        ("void at::native::upsample_nearest2d_nhwc_out_frame<float>(args)", False),
    ],
)
def test_only_kernels_for_the_other_layout_become_faster(kernel: str, faster: bool) -> None:
    assert (gain(kernel) > 1.2) is faster


def test_nothing_is_promised_where_nothing_is_converted() -> None:
    assert gain("void at::native::avg_pool2d_backward_out_cuda_frame<float>(args)", conversions=0) == 1.0


def copies(
    outside: list[int], *, dims: int = 4, within: str = "aten::_convolution", shapes: bool = True
) -> float:
    """Of steps of five convolutions that copy images of 64 channels first, and a copy of others outside of one."""

    def copy(trace: TinyTrace, place: int, shape: list[int], inside: str = "") -> None:
        at, ends = 10.0 + 40 * place, 80.0 + 110 * place
        trace.operation(ends - 60, ends, "void elementwise_kernel<direct_copy_kernel_cuda>(args)", at + 8)
        written = trace.op(at + 6, at + 16, "aten::copy_")
        if shapes:
            trace.shapes(written, [shape, shape], ["float", "float"])
        trace.op(at + 4, at + 18, "aten::contiguous")
        if inside:
            trace.op(at + 2, at + 20, inside)

    def body(trace: TinyTrace, _: int) -> None:
        for place in range(5):
            copy(trace, 2 * place, [8, 64, 32, 16][4 - dims :], within)
            trace.operation(80 + 220 * place, 120 + 220 * place, "void implicit_gemm", 35 + 80 * place)
            copy(trace, 2 * place + 1, outside[4 - dims :])
        trace.call(420, 1115, "cudaDeviceSynchronize")

    return promised(plan_of_body(body, length=1120)).get("use-channels-last", 1.0)


@pytest.mark.parametrize(
    ("outside", "dims", "within", "shapes", "found"),
    [
        ([8, 32, 16, 64], 4, "aten::_convolution", True, True),
        ([8, 64, 32, 16], 4, "aten::convolution", True, True),
        ([8, 32, 16, 32], 4, "aten::_convolution", True, False),
        ([8, 32, 16, 64], 3, "aten::_convolution", True, False),
        ([8, 32, 16, 64], 4, "aten::linear", True, False),
        ([8, 32, 16, 64], 4, "aten::_convolution", False, False),
    ],
    ids=["turned", "same sides", "a part of the channels", "sequences", "no convolution", "no shapes"],
)
def test_images_that_are_copied_for_a_convolution_and_outside_of_it_are_turned(
    outside: list[int], dims: int, within: str, shapes: bool, found: bool
) -> None:
    assert (copies(outside, dims=dims, within=within, shapes=shapes) > 1.2) is found
