"""Nothing logged and nothing saved in the steps."""

from __future__ import annotations

from typing import Any, Optional

from ..catalogue import CEILING, Change, change
from ..known_calls import LOGGING, found
from ..program import Program


@change
class NoLogging(Change):
    """``torch.save``, TensorBoard, Weights & Biases and MLflow do nothing."""

    name = "no-logging"
    title = "Logging and checkpoints take no time"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        return None if "logging" in program.seen else "it logs and saves nothing in its steps"

    def on(self, program: Program) -> None:
        def nothing(*args: Any, **kwargs: Any) -> None:
            return None

        for owner, name in found(LOGGING):
            self.put(owner, name, nothing)
