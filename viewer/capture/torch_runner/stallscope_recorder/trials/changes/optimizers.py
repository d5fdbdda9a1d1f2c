"""Optimizers that update in lists or in a few kernels instead of one by one; gradients dropped instead of zeroed."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ..catalogue import Change, change
from ..program import Program, torch_module
from ..sites import Edit


def groups_that_know(program: Program, key: str) -> List[Any]:
    """Parameter groups of optimizers that have this argument, each with its optimizer."""
    return [
        (optimizer, group)
        for optimizer in program.optimizers
        for group in optimizer.param_groups
        if key in group
    ]


def update_by(change: Change, program: Program, wanted: Dict[str, bool]) -> None:
    """Have the optimizers update with these arguments until the change is taken back.

    The counters of steps move to where the way of updating has them: beside the parameters where it is fused.
    """
    for optimizer, group in groups_that_know(program, next(iter(wanted))):
        before = {key: group[key] for key in wanted if key in group}

        def put_back(optimizer: Any = optimizer, group: Any = group, before: Any = before) -> None:
            group.update(before)
            _move_counters(optimizer, group)

        change.undo_by(put_back)
        group.update({key: value for key, value in wanted.items() if key in group})
        _move_counters(optimizer, group)


def _move_counters(optimizer: Any, group: Any) -> None:
    torch = torch_module()
    beside = bool(group.get("fused") or group.get("capturable"))
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        counter = state.get("step")
        if torch.is_tensor(counter):
            state["step"] = counter.to(parameter.device if beside else "cpu")


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
