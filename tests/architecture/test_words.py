"""Words that people read: one for one thing, in the program and in its documents."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDER = re.compile(r"\brecorders?\b", re.IGNORECASE)
OTHERS = re.compile(r"flight recorders?", re.IGNORECASE)  # a log of PyTorch's, and called so by everybody
OF_CODE = re.compile(r"`[^`]*`|```.*?```", re.DOTALL)


def sentences(path: Path) -> list[str]:
    """Texts of several words in a module that speaks of a recorder: no docstring but those of rules and fixes."""
    source = path.read_text("utf-8")
    if not RECORDER.search(OTHERS.sub("", source)):
        return []
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for_developers = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
    }
    texts = (
        node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in for_developers
    )
    return [text.value for text in texts if isinstance(text.value, str) and " " in text.value.strip()]


@pytest.mark.parametrize("folder", ["parsers", "rules", "viewer", "stallscope"])
def test_what_recorded_a_program_is_called_a_profiler_in_the_program(folder: str) -> None:
    found = [
        (path.relative_to(ROOT).as_posix(), text)
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "torch_runner" not in path.parts  # what runs inside the recorded program, and says little
        for text in sentences(path)
        if RECORDER.search(OTHERS.sub("", text)) and "--recorder" not in text
    ]
    assert not found


def test_what_recorded_a_program_is_called_a_profiler_in_the_documents() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    found = [
        (path.name, line)
        for path in pages
        for line in OF_CODE.sub("", path.read_text("utf-8")).splitlines()
        if RECORDER.search(OTHERS.sub("", line)) and path.name != "architecture.md"  # names modules
    ]
    assert not found
