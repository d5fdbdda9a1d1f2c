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
