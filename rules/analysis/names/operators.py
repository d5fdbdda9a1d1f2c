"""Names of PyTorch's operators that tell a pass of a model from the other."""

from __future__ import annotations

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


def is_autograd_function(name: str) -> bool:
    """Whether autograd runs a function of the backward pass inside of it."""
    return name.startswith("autograd::engine::evaluate_function")
