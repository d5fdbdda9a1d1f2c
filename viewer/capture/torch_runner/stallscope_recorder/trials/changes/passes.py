"""Passes that keep less: nothing for gradients, or no exchange but the last of a step."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ..catalogue import Change, change
from ..program import Program, torch_module
from ..sites import Edit


@change
class InferenceMode(Change):
    """``torch.inference_mode()`` around the model."""

    name = "inference-mode"
    title = "Run the model under torch.inference_mode()"

    def can(self, program: Program) -> Optional[str]:
        if program.trains:
            return "the program is training"
        if not program.models:
            return "no model with parameters was called"
        return "the program uses inference_mode already" if "inference mode" in program.seen else None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("model", around="torch.inference_mode()"),)

    def on(self, program: Program) -> None:
        torch = torch_module()
        for model in program.models:
            inner = model.forward

            def forward(*args: Any, _inner: Any = inner, **kwargs: Any) -> Any:
                with torch.inference_mode():
                    return _inner(*args, **kwargs)

            self.put(model, "forward", forward)


@change
class NoSync(Change):
    """``model.no_sync()`` around all but the last backward pass of a step."""

    name = "no-sync"
    title = "Sync gradients once per step (no_sync)"

    def can(self, program: Program) -> Optional[str]:
        if not program.parallel_models():
            return "no model is in DistributedDataParallel"
        if program.backwards_per_step < 2:
            return "each step has only one backward pass"
        if "no_sync" in program.seen:
            return "the program uses no_sync already"
        return None

    def on(self, program: Program) -> None:
        needed = program.backwards_per_step
        for model in program.parallel_models():
            inner = model.forward

            def forward(*args: Any, _inner: Any = inner, _model: Any = model, **kwargs: Any) -> Any:
                _model.require_backward_grad_sync = program.backwards_in_step + 1 >= needed
                return _inner(*args, **kwargs)

            self.put(model, "require_backward_grad_sync", model.require_backward_grad_sync)
            self.put(model, "forward", forward)
