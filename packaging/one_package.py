"""Puts the folders of the checkout below one package in the wheel, so that it adds one name to an environment.

The checkout has the packages ``viewer``, ``parsers``, ``rules`` and ``resources`` beside the thin ``stallscope``. The
wheel has ``stallscope`` alone: the others lie below it, and every import statement says so.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("viewer", "parsers", "rules", "resources")
ONE = "stallscope"
_NAMES = "|".join(PACKAGES)
_FROM = re.compile(rf"^(\s*)from ({_NAMES})\b")
_IMPORT_AS = re.compile(rf"^(\s*)import ({_NAMES})((?:\.\w+)+) as\b")
_IMPORT = re.compile(rf"^(\s*)import ({_NAMES})(?=\s*(#|$))")


class OnePackage(BuildHookInterface[Any]):
    """Called by hatchling for every wheel; an editable install leaves everything where it is."""

    PLUGIN_NAME = "one-package"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._made = Path(tempfile.mkdtemp(prefix="stallscope-wheel-"))
        move_below(Path(self.root), self._made / ONE)
        build_data["force_include"][str(self._made / ONE)] = ONE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self._made, ignore_errors=True)


def move_below(root: Path, target: Path) -> None:
    """Copy the packages of a checkout to ``target``, with their imports rewritten."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(root / ONE, target, ignore=ignored)
    for package in PACKAGES:
        shutil.copytree(root / package, target / package, ignore=ignored)
    for file in sorted(target.rglob("*.py")):
        text = file.read_text("utf-8")
        moved = with_one_package(text, str(file.relative_to(target)))
        if moved != text:
            file.write_text(moved, "utf-8")


def with_one_package(text: str, name: str) -> str:
    """A module's text with its import statements below the one package.

    Raises ``ValueError`` for a statement that it cannot move.
    """
    lines = text.splitlines(keepends=True)
    for node in _imports(ast.parse(text, name)):
        if isinstance(node, ast.ImportFrom):
            ours = node.level == 0 and (node.module or "").partition(".")[0] in PACKAGES
        else:
            ours = any(alias.name.partition(".")[0] in PACKAGES for alias in node.names)
        if ours:
            lines[node.lineno - 1] = _moved(lines[node.lineno - 1], f"{name}:{node.lineno}")
    return "".join(lines)


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements, wherever they stand; no expression is looked into, which would take most of the time."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())


def _moved(line: str, place: str) -> str:
    for pattern, into in (
        (_FROM, rf"\1from {ONE}.\2"),
        (_IMPORT_AS, rf"\1import {ONE}.\2\3 as"),
        (_IMPORT, rf"\1from {ONE} import \2"),
    ):
        moved, count = pattern.subn(into, line)
        if count:
            return moved
    raise ValueError(f"{place}: write this import as `from ... import ...`, so that the wheel can move it")
