"""Single-precision products on the tensor cores, rounded to 10 bits."""

from __future__ import annotations

from typing import Optional, Tuple

from ..catalogue import Change, change
from ..program import NO_GPU, Program, has_parameters_of, torch_module
from ..sites import Edit


@change
class Tf32(Change):
    """``torch.set_float32_matmul_precision("high")`` and the same for convolutions."""

    name = "tf32"
    title = "Use TF32 tensor cores"
    group = "precision"

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
        if program.device != "cuda":
            return NO_GPU
        if torch.cuda.get_device_capability()[0] < 8:
            return "this GPU doesn't support TF32"
        if torch.get_float32_matmul_precision() != "highest" and torch.backends.cudnn.allow_tf32:
            return "TF32 is on already"
        if program.models and not has_parameters_of(program, (torch.float32,)):
            return "no parameter is in single precision"
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("", once='torch.set_float32_matmul_precision("high")'),)

    def on(self, program: Program) -> None:
        torch = torch_module()
        products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        self.undo_by(lambda: torch.set_float32_matmul_precision(products))
        torch.set_float32_matmul_precision("high")
        self.undo_by(lambda: setattr(torch.backends.cudnn, "allow_tf32", convolutions))
        torch.backends.cudnn.allow_tf32 = True

    def is_made(self, program: Program) -> bool:
        return bool(torch_module().get_float32_matmul_precision() == "high")
