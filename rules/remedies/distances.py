"""Distances between all pairs of points."""

from __future__ import annotations

from rules.remedies.remedy import pytorch_remedy

DISTANCES_BY_PRODUCT = pytorch_remedy(
    "The square of a difference is the sum of both squares less twice the product: one matrix product "
    "and two short sums, and no tensor of all differences.",
    "torch.cdist does it in one call, for the 1-norm as well.",
    code="""squares = x.square().sum(1, keepdim=True) + y.square().sum(1) - 2 * x @ y.T
# or torch.cdist(x, y), instead of ((x[:, None] - y[None]) ** 2).sum(-1)""",
)
