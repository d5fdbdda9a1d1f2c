"""The models compiled and launched as CUDA graphs."""

from __future__ import annotations

from typing import Optional

from ..catalogue import change
from ..compilation import Compiled
from ..program import NO_GPU, Program, torch_module


@change
class CompileReduceOverhead(Compiled):
    """``torch.compile(model, mode="reduce-overhead")``."""

    name = "compile-reduce-overhead"
    title = "torch.compile with CUDA graphs (reduce-overhead)"
    mode = "reduce-overhead"
    usual = False
    first_settle = 12
    settle = 3

    def can(self, program: Program) -> Optional[str]:
        return NO_GPU if program.device != "cuda" else super().can(program)

    def at_step(self, program: Program) -> None:
        mark = getattr(torch_module().compiler, "cudagraph_mark_step_begin", None)
        if mark is not None:
            mark()
