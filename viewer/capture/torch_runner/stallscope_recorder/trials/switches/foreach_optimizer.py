"""Optimizers that update lists of parameters instead of one after the other."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ..catalogue import Change, change
from ..optimizer_groups import groups_that_know, update_by
from ..program import Program
from ..sites import Edit


@change
class ForeachOptimizer(Change):
    """``foreach=True``."""

    name = "foreach-optimizer"
    title = "Use the foreach optimizer"
    group = "optimizer"

    def can(self, program: Program) -> Optional[str]:
        if not program.optimizers:
            return "no optimizer stepped"
        groups = groups_that_know(program, "foreach")
        if not groups:
            return "its optimizer has no foreach version"
        if all(_updates_lists(group) for _, group in groups):
            return "the optimizer uses foreach already"
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("optimizer", (("foreach", "True"),), ("fused",)),)

    def on(self, program: Program) -> None:
        update_by(self, program, {"foreach": True, "fused": False})


def _updates_lists(group: Any) -> bool:
    """torch does so by itself on a GPU, where nobody says otherwise."""
    if group.get("fused") or group["foreach"]:
        return True
    on_gpu = all(each.is_cuda for each in group["params"])
    return group["foreach"] is None and not group.get("differentiable") and on_gpu
