"""What the numbers of a kernel report mean, in plain words: every stall reason, section and group of metrics."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

import resources
from parsers.model.late import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """One entry: what it is, why it costs time, what usually helps, and when it can be ignored."""

    label: str
    meaning: str
    cost: str
    fix: str
    harmless: str


@cache
def _table() -> Mapping[str, Any]:
    with resources.path("kernel_explanations.toml").open("rb") as file:
        return tomllib.load(file)


@cache
def stall_reasons() -> Mapping[str, Explanation]:
    """Every reason for which a warp may stall."""
    return {key: Explanation(**entry) for key, entry in _table()["stalls"].items()}


@cache
def report_sections() -> Mapping[str, Explanation]:
    """Every section of a report, by its identifier."""
    return {key: Explanation(**entry) for key, entry in _table()["sections"].items()}


def explain_metric(metric: str) -> str:
    """Which unit a metric belongs to; empty when its name says nothing."""
    return next((text for prefix, text in _table()["metrics"].items() if metric.startswith(prefix)), "")


def glossary() -> list[str]:
    """Every stall reason and section as lines of Markdown."""
    lines: list[str] = []
    for title, entries in (
        ("Stall reasons", stall_reasons()),
        ("Sections of a kernel report", report_sections()),
    ):
        lines += ["", f"## {title}"]
        for key, entry in entries.items():
            lines += [
                "",
                f"**{entry.label[0].upper()}{entry.label[1:]}** (`{key}`): {entry.meaning}",
                f"* Why it costs time: {entry.cost}",
                f"* What usually helps: {entry.fix}",
                f"* When it does not matter: {entry.harmless}",
            ]
    return lines
