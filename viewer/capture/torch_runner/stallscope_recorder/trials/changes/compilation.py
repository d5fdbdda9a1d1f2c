"""The models compiled once and called compiled or not, from block to block."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from typing import Any, Dict, Optional, Tuple

from ..catalogue import Change, change
from ..program import Program, torch_module
from ..sites import Edit


class Compiled(Change):
    """``model.compile(mode=...)``; compiling falls into the first steps after it, which are not timed."""

    level = "switch"
    group = "compile"
    first_settle = 8
    mode = "default"

    def __init__(self) -> None:
        super().__init__()
        self._compiled: Dict[int, Any] = {}

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
        if not program.models:
            return "no model with parameters was called"
        if any(_is_compiled(each) for each in program.modules()):
            return "the model is compiled already"
        supported = getattr(importlib.import_module("torch._dynamo"), "is_dynamo_supported", None)
        if supported is not None and not supported():
            return "torch {} can't compile under Python {}.{}".format(
                torch.__version__, *sys.version_info[:2]
            )
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        mode = "" if self.mode == "default" else 'mode="{}"'.format(self.mode)
        return (Edit("model", after="{}.compile(" + mode + ")"),)

    def on(self, program: Program) -> None:
        for model in program.models:
            self.undo_by(partial(setattr, model, "_compiled_call_impl", model._compiled_call_impl))
            if id(model) not in self._compiled:
                model.compile(mode=self.mode)
                self._compiled[id(model)] = model._compiled_call_impl
            model._compiled_call_impl = self._compiled[id(model)]


def _is_compiled(module: Any) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


@change
class CompileDefault(Compiled):
    """``torch.compile(model)``."""

    name = "compile"
    title = "torch.compile"


@change
class CompileReduceOverhead(Compiled):
    """``torch.compile(model, mode="reduce-overhead")``."""

    name = "compile-reduce-overhead"
    title = "torch.compile with CUDA graphs (reduce-overhead)"
    mode = "reduce-overhead"
    usual = False
    needs_gpu = True
    first_settle = 12
    settle = 3

    def at_step(self, program: Program) -> None:
        mark = getattr(torch_module().compiler, "cudagraph_mark_step_begin", None)
        if mark is not None:
            mark()
