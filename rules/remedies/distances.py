"""Distances between all pairs of points."""

from __future__ import annotations

from rules.remedies.remedy import remedy
from rules.wording.words import for_pytorch

DISTANCES_BY_PRODUCT = remedy(
    for_pytorch(
        "The square of a difference is the sum of both squares less twice the product: one matrix product "
        "and two short sums, and no tensor of all differences."
    ),
    for_pytorch("torch.cdist does it in one call, for the 1-norm as well."),
    code=for_pytorch("""squares = x.square().sum(1, keepdim=True) + y.square().sum(1) - 2 * x @ y.T
# or torch.cdist(x, y), instead of ((x[:, None] - y[None]) ** 2).sum(-1)"""),
)
