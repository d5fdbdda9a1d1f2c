"""How the optimizers of a program update their parameters: one by one, in lists, or fused into a few kernels."""

from __future__ import annotations

from typing import Any, Dict, List

from .catalogue import Change
from .program import Program, torch_module


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
