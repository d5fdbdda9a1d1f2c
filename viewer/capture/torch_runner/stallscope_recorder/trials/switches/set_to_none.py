"""Gradients dropped instead of filled with zeros."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ..catalogue import Change, change
from ..program import Program, torch_module
from ..sites import Edit


@change
class SetToNone(Change):
    """``zero_grad(set_to_none=True)``."""

    name = "set-to-none"
    title = "Set gradients to None (set_to_none)"

    def can(self, program: Program) -> Optional[str]:
        return None if "zeroed gradients" in program.seen else "gradients are set to None already"

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("zero_grad", (("set_to_none", "True"),)),)

    def on(self, program: Program) -> None:
        torch = torch_module()
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            inner = owner.zero_grad

            def zero_grad(self: Any, set_to_none: bool = True, _inner: Any = inner) -> Any:
                return _inner(self, True)

            self.put(owner, "zero_grad", zero_grad)
