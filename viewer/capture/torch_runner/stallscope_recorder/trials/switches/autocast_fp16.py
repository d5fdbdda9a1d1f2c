"""The models computed under autocast with float16, the loss scaled and the gradients unscaled again."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from ..catalogue import Change, change
from ..precision import put_under_autocast, reason_against_autocast
from ..program import Program, torch_module


@change
class AutocastFp16(Change):
    """``torch.autocast(device, torch.float16)`` with a GradScaler, whose scale is kept from block to block."""

    name = "autocast-fp16"
    title = "float16 autocast with a gradient scaler"
    group = "precision"
    usual = False

    def __init__(self) -> None:
        super().__init__()
        self._scaler: Any = None

    def can(self, program: Program) -> Optional[str]:
        if "gradient scaler" in program.seen:
            return "the program scales its gradients already"
        return reason_against_autocast(program)

    def on(self, program: Program) -> None:
        torch = torch_module()
        put_under_autocast(self, program, torch.float16)
        if not program.trains:
            return
        if self._scaler is None:
            self._scaler = _scaler_of_ours(program)
        scaler = self._scaler
        self.put(program, "scaler", scaler)
        for optimizer in program.optimizers:
            self._step_through(scaler, optimizer, program.optimizer_stepped)

    def _step_through(self, scaler: Any, optimizer: Any, stepped: Callable[[Any], None]) -> None:
        """Let the scaler make the steps; one that it leaves out, of gradients that overflowed, is a step as well."""
        inner = optimizer.step
        inside: List[bool] = []
        made_steps: List[bool] = []

        def step(*args: Any, **kwargs: Any) -> Any:
            if inside:
                made_steps.append(True)
                return inner(*args, **kwargs)
            inside.append(True)
            try:
                made = scaler.step(optimizer, *args, **kwargs)
                scaler.update()
                if not made_steps:
                    stepped(optimizer)
                return made
            finally:
                inside.clear()
                made_steps.clear()

        self.put(optimizer, "step", step)


def _scaler_of_ours(program: Program) -> Any:
    program.scaler_is_ours = True
    try:
        return torch_module().amp.GradScaler(program.device)
    finally:
        program.scaler_is_ours = False
