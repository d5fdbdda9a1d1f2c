"""A plugin of pytest, loaded before the product: a module of it is compiled with another number for a constant."""

from __future__ import annotations

import ast
import json
import os
from importlib.machinery import SourceFileLoader
from types import CodeType

from tests.mutation.constants import Constant, assigned, module_of, parsed

CHANGE = "STALLSCOPE_CHANGED_CONSTANT"  # file, name and value, as JSON


def change_of(constant: Constant, value: float) -> dict[str, str]:
    """The environment in which this plugin changes a constant."""
    return {CHANGE: json.dumps([constant.file, constant.name, value])}


class _Changed(ast.NodeTransformer):
    def __init__(self, number: ast.expr, value: float) -> None:
        self._number = number
        self._value = value

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._number:
            return ast.copy_location(ast.Constant(self._value), node)
        visited: ast.AST = self.generic_visit(node)
        return visited


def _compile_changed(file: str, name: str, value: float) -> None:
    usual = SourceFileLoader.get_code
    module = parsed(file)
    (number,) = (found[1] for found in map(assigned, module.body) if found is not None and found[0] == name)
    changed = _Changed(number, value).visit(module)

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if fullname != module_of(file):
            return usual(self, fullname)
        return compile(changed, self.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


if CHANGE in os.environ:
    _compile_changed(*json.loads(os.environ[CHANGE]))
