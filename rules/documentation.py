"""Writes docs/rules.md, and the index of the rules, from the rules themselves: ``python -m rules.documentation``."""

from __future__ import annotations

import re
import sys
import textwrap
from functools import cache
from pathlib import Path

import resources
from parsers.model.late import regex
from rules.findings.base import EXPLANATION_HEADINGS, Category, Rule, rules
from rules.findings.listed import FILE, index_text
from rules.kernels.checks.explanations import glossary
from rules.terms import DEFAULTS, Threshold, Thresholds, known_thresholds

_KEY = regex(r"\{([a-z-]+)\}")
DESTINATION = Path(__file__).resolve().parent.parent / "docs" / "rules.md"
_HEAD = """# Rules

What each check of the diagnosis looks at, why it costs time, how it decides, what to try, and when it is wrong.
This page is written from the rules themselves by `python -m rules.documentation`.
"""
_THRESHOLDS = (
    "These numbers can be changed in the preferences of the window and, for one call, with `stallscope diagnose "
    "--threshold NAME=VALUE`. A diagnosis that was made with other numbers than the defaults says so."
)


def explanation_parts(rule: Rule, thresholds: Thresholds = DEFAULTS) -> dict[str, str]:
    """Heading -> text, in the order of the explanation, with thresholds where it names their keys in braces.

    Raises ``ValueError`` unless it has the five headings, and ``KeyError`` for a key that is no threshold's.
    """
    known = _thresholds_by_key()

    def told(key: re.Match[str]) -> str:
        threshold = known[key[1]]
        return threshold.told(thresholds[threshold])

    return {heading: _KEY.sub(told, text) for heading, text in _headed(rule.id, rule.explanation)}


@cache
def _thresholds_by_key() -> dict[str, Threshold]:
    return {each.key: each for each in known_thresholds()}


@cache
def _headed(rule: str, explanation: str) -> tuple[tuple[str, str], ...]:
    parts: dict[str, list[str]] = {}
    for line in explanation.strip().splitlines():
        if line in EXPLANATION_HEADINGS:
            parts[line] = []
        elif parts:
            parts[next(reversed(parts))].append(line.strip())
        elif line.strip():
            raise ValueError(f"{rule}: the explanation starts without a heading")
    if tuple(parts) != EXPLANATION_HEADINGS:
        raise ValueError(f"{rule}: the explanation must have the headings {', '.join(EXPLANATION_HEADINGS)}")
    return tuple((heading, " ".join(" ".join(lines).split())) for heading, lines in parts.items())


def page() -> str:
    """The whole page: a table of all rules, then each rule."""
    order = list(Category)
    catalog = sorted(rules(), key=lambda each: (order.index(each.category), each.id))
    lines = [_HEAD, "| Rule | Category | Needs |", "|---|---|---|"]
    for each in catalog:
        needs = ", ".join(sorted(need.name.lower().replace("_", " ") for need in each.needs)) or "nothing"
        lines.append(f"| [{each.id}](#{each.id}) | {each.category.value} | {needs} |")
    for each in catalog:
        lines += ["", f"## {each.id}", "", f"Category: `{each.category.value}`"]
        for heading, text in explanation_parts(each).items():
            lines += ["", *textwrap.wrap(f"**{heading}.** {text}", 118, break_on_hyphens=False)]
    lines += _thresholds()
    for line in glossary():
        lines += textwrap.wrap(line, 118, break_on_hyphens=False) or [""]
    return "\n".join(lines) + "\n"


def _thresholds() -> list[str]:
    """The table of what can be changed in the preferences or with ``--threshold``."""
    lines = ["", "## Thresholds", "", *textwrap.wrap(_THRESHOLDS, 118)]
    lines += ["", "| Name | What it decides | Default | Bounds | Source |", "|---|---|---|---|---|"]
    for each in known_thresholds():
        bounds = f"{each.written(each.least)} to {each.written(each.most)}"
        cells = (f"`{each.key}`", each.meaning, each.written(each.default), bounds, each.source)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> int:
    """Write the page and the index; with ``--check`` only say whether both are fresh."""
    fresh = {DESTINATION: page(), resources.path(FILE): index_text()}
    if "--check" in sys.argv[1:]:
        return int(any(not file.is_file() or file.read_text("utf-8") != text for file, text in fresh.items()))
    for file, text in fresh.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
