"""Optimizers that update all parameters in a few kernels."""

from __future__ import annotations

from typing import Optional, Tuple

from ..catalogue import Change, change
from ..optimizer_groups import groups_that_know, update_by
from ..program import Program, torch_module
from ..sites import Edit


@change
class FusedOptimizer(Change):
    """``fused=True``."""

    name = "fused-optimizer"
    title = "Use a fused optimizer"
    group = "optimizer"

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
        if not program.optimizers:
            return "no optimizer stepped"
        groups = groups_that_know(program, "fused")
        if not groups:
            return "its optimizer has no fused version"
        if all(group["fused"] for _, group in groups):
            return "the optimizer is fused already"
        if any(group.get("differentiable") for _, group in groups):
            return "a differentiable optimizer cannot be fused"
        devices = {each.device.type for _, group in groups for each in group["params"]}
        if "cpu" in devices and not _fuses_on_cpu(torch):
            return "this torch has no fused optimizer for the CPU"
        if any(each.is_complex() for _, group in groups for each in group["params"]):
            return "complex parameters cannot be updated by a fused optimizer"
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("optimizer", (("fused", "True"),), ("foreach",)),)

    def on(self, program: Program) -> None:
        update_by(self, program, {"fused": True, "foreach": False})


def _fuses_on_cpu(torch: object) -> bool:
    from importlib import import_module

    try:
        devices = import_module("torch.utils._foreach_utils")._get_fused_kernels_supported_devices()
    except (ImportError, AttributeError):
        return False
    return "cpu" in devices
