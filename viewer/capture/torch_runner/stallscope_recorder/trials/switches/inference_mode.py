"""Forward passes without anything kept for gradients."""

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
