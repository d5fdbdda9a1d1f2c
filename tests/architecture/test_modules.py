"""Modules stay small enough to be read at one sitting, and each says in its first sentence what it holds."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

PACKAGES = ("stallscope", "viewer", "parsers", "rules", "resources")
MAX_MODULE_LINES = 450


def program_modules(repository: Path) -> list[Path]:
    """Every source file of the program."""
    found = [file for package in PACKAGES for file in sorted((repository / package).rglob("*.py"))]
    assert len(found) >= len(PACKAGES), "the packages were not found"
    return found


def test_no_module_is_too_long(repository: Path) -> None:
    lengths = {
        str(file.relative_to(repository)): len(file.read_text("utf-8").splitlines())
        for file in [*program_modules(repository), *(repository / "tests").rglob("*.py")]
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_MODULE_LINES} == {}


def first_words(module: Path) -> str:
    """The text that a module begins with; "" where it begins with anything else."""
    with tokenize.open(module) as text:
        tokens = tokenize.generate_tokens(text.readline)
        first = next(each for each in tokens if each.type not in (tokenize.COMMENT, tokenize.NL))
    return str(ast.literal_eval(first.string)).strip() if first.type == tokenize.STRING else ""


def test_every_module_says_what_it_holds(repository: Path) -> None:
    silent = [
        str(file.relative_to(repository)) for file in program_modules(repository) if not first_words(file)
    ]
    assert silent == []


def test_no_module_is_a_drawer_for_everything(repository: Path) -> None:
    drawers = {"utils", "util", "helpers", "misc", "common"}
    assert [file.name for file in program_modules(repository) if file.stem in drawers] == []


def test_limits_are_called_min_and_max(repository: Path) -> None:
    superlatives = re.compile(
        r"\b_?(LEAST|FEWEST|SHORTEST|SMALLEST|LOWEST|MOST|LONGEST|LARGEST|GREATEST|HIGHEST)_\w+"
    )
    files = [*program_modules(repository), *(repository / "tests").rglob("*.py")]
    names = {
        each.id
        for file in files
        if superlatives.search(text := file.read_text("utf-8"))
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    assert {name for name in names if superlatives.fullmatch(name)} == set()
