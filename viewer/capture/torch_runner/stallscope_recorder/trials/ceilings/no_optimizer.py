"""Steps without the optimizer's."""

from __future__ import annotations

from typing import Any, Optional

from ..catalogue import CEILING, Change, change
from ..program import Program


@change
class NoOptimizer(Change):
    """``optimizer.step()`` updates nothing."""

    name = "no-optimizer"
    title = "The optimizer takes no time"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        return None if program.optimizers else "no optimizer stepped"

    def on(self, program: Program) -> None:
        for optimizer in program.optimizers:

            def step(closure: Any = None, *args: Any, _optimizer: Any = optimizer, **kwargs: Any) -> Any:
                made = closure() if callable(closure) else None
                program.optimizer_stepped(_optimizer)
                return made

            self.put(optimizer, "step", step)
