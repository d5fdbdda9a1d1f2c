"""Names of PyTorch's operators that tell a pass of a model from the other."""

from __future__ import annotations

AUTOGRAD_FUNCTION = "autograd::engine::evaluate_function"  # around what a function of the backward pass runs

# Functions of the forward pass: what computes their gradients is called otherwise.
FORWARD = frozenset(
    (
        "aten::linear",
        "aten::conv1d",
        "aten::conv2d",
        "aten::conv3d",
        "aten::layer_norm",
        "aten::rms_norm",
        "aten::group_norm",
        "aten::batch_norm",
        "aten::scaled_dot_product_attention",
        "aten::gelu",
        "aten::relu",
        "aten::relu_",
        "aten::silu",
        "aten::softmax",
        "aten::embedding",
    )
)
