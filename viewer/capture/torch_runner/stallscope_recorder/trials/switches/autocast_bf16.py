"""The models computed under autocast with bfloat16."""

from __future__ import annotations

from typing import Optional, Tuple

from ..catalogue import Change, change
from ..precision import put_under_autocast, reason_against_autocast
from ..program import Program, torch_module
from ..sites import Edit


@change
class AutocastBf16(Change):
    """``torch.autocast(device, torch.bfloat16)`` around the model."""

    name = "autocast-bf16"
    title = "bfloat16 autocast"
    group = "precision"

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
        if program.device == "cuda" and not torch.cuda.is_bf16_supported():
            return "this GPU doesn't support bfloat16"
        return reason_against_autocast(program)

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("model", around='torch.autocast("{}", dtype=torch.bfloat16)'.format(program.device)),)

    def on(self, program: Program) -> None:
        put_under_autocast(self, program, torch_module().bfloat16)
