"""Each rule explains itself under the five headings, and docs/rules.md is what the rules say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from rules.documentation import explanation_parts, page
from rules.findings.base import EXPLANATION_HEADINGS, Category, Rule, rules
from rules.terms import Thresholds


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_a_rule_explains_itself_under_the_five_headings(rule: Rule) -> None:
    parts = explanation_parts(rule)
    assert tuple(parts) == EXPLANATION_HEADINGS
    assert all(len(text) > 20 for text in parts.values())
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id)
    assert isinstance(rule.category, Category)


def test_the_page_of_rules_is_fresh(repository: Path) -> None:
    assert (repository / "docs" / "rules.md").read_text("utf-8") == page(), (
        "run python -m rules.documentation"
    )


def test_an_explanation_without_all_headings_is_refused() -> None:
    class Silent:
        id = "silent"
        explanation = "What it found\n    Something.\n"

    with pytest.raises(ValueError, match="must have the headings"):
        explanation_parts(Silent())  # type: ignore[arg-type]


def snippets(repository: Path) -> list[tuple[str, str]]:
    found = []
    for file in sorted((repository / "rules" / "catalog").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name.endswith("_CODE") and isinstance(node.value, ast.Constant):
                    found.append((f"{file.stem}{name}", str(node.value.value)))
    return found


def test_every_snippet_is_python_that_parses(repository: Path) -> None:
    every = snippets(repository)
    assert len(every) >= 15
    for name, text in every:
        if "#include" in text or "__global__" in text or "nsys " in text.split("\n")[0]:
            continue
        compile(text, name, "exec")


def test_an_explanation_tells_the_thresholds_that_are_in_force() -> None:
    (rule,) = [each for each in rules() if each.id == "waiting-for-python"]
    changed = Thresholds({"launch-pause": 2_000_000.0})
    assert "launched nothing for at least 0.5 ms and" in explanation_parts(rule)["How it decides"]
    assert "launched nothing for at least 2 ms and" in explanation_parts(rule, changed)["How it decides"]
