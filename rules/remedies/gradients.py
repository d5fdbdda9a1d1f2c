"""Gradients that nobody uses."""

from __future__ import annotations

from rules.remedies.remedy import remedy
from rules.wording.words import for_pytorch

NO_UNUSED_GRADIENTS = remedy(
    for_pytorch(
        "Run the part of the model that is not trained under torch.no_grad(), or detach what it returns; eval() "
        "alone does not turn gradients off."
    ),
    for_pytorch("For a frozen part of a larger model: part.requires_grad_(False)."),
    for_pytorch(
        "If it should be trained after all, give its parameters to the optimizer: it has none of them."
    ),
    code=for_pytorch("""with torch.no_grad():
    known = teacher(batch)                       # or: features = backbone(batch)
loss = loss_of(student(batch), known)"""),
)
