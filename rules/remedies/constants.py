"""Constants that are built anew in each call, such as tables of positions and masks."""

from __future__ import annotations

from rules.remedies.remedy import remedy
from rules.wording.words import for_pytorch

BUILT_ONCE = remedy(
    "Build what follows from sizes alone once, where the model is made, and keep it; a new size makes a new one.",
    for_pytorch(
        "Keep it in a buffer of the module, so that it moves to the GPU with the model: "
        "self.register_buffer('positions', table, persistent=False)."
    ),
    for_pytorch(
        "If the sizes change, keep one for each size: functools.cache on a function of sizes and device."
    ),
    code=for_pytorch("""class Block(nn.Module):
    def __init__(self, length):
        super().__init__()
        mask = torch.full((length, length), float("-inf")).triu(1)    # once, not in forward
        self.register_buffer("mask", mask, persistent=False)"""),
)
