"""The models compiled by ``torch.compile``."""

from __future__ import annotations

from ..catalogue import change
from ..compilation import Compiled


@change
class CompileDefault(Compiled):
    """``torch.compile(model)``."""

    name = "compile"
    title = "torch.compile"
