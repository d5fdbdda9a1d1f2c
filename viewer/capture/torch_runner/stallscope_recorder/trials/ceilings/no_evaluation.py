"""Models in evaluation answered from what they gave last."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..catalogue import CEILING, Change, change
from ..program import Program, mapped


@change
class NoEvaluation(Change):
    """A model that is called in ``eval()`` while the program trains computes once for each shape."""

    name = "no-evaluation"
    title = "Evaluation takes no time"
    level = CEILING

    def __init__(self) -> None:
        super().__init__()
        self._known: Dict[Any, Any] = {}

    def can(self, program: Program) -> Optional[str]:
        if not program.trains:
            return "the program does not train"
        return None if "evaluation" in program.seen else "no model is in evaluation mode"

    def on(self, program: Program) -> None:
        for model in program.models:
            inner = model.forward

            def forward(*args: Any, _inner: Any = inner, _model: Any = model, **kwargs: Any) -> Any:
                if _model.training:
                    return _inner(*args, **kwargs)
                shapes: List[Any] = []
                mapped([args, kwargs], lambda tensor: shapes.append(tuple(tensor.shape)))
                key = (id(_model), tuple(shapes))
                if key not in self._known:
                    self._known[key] = _inner(*args, **kwargs)
                return self._known[key]

            self.put(model, "forward", forward)

    def off(self, program: Program) -> None:
        self._known.clear()
        super().off(program)
