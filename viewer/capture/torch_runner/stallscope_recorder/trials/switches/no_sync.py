"""Gradients exchanged once a step where several backward passes are summed up."""

from __future__ import annotations

from typing import Any, Optional

from ..catalogue import Change, change
from ..program import Program


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
