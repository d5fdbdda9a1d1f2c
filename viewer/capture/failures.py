"""Known ways in which a recording fails, each with what it means and what mends it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

import resources
from viewer.capture.request import Tool


class CaptureProblem(Exception):
    """A recording cannot start or gave nothing; ``problem`` says why in one sentence and ``fix`` what mends it."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"{problem} {fix}".strip())
        self.problem = problem
        self.fix = fix


@cache
def _known() -> tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...]:
    """What each pattern in the output of a tool means."""
    with resources.path("failures.toml").open("rb") as file:
        return tuple(
            (re.compile(each["pattern"], re.IGNORECASE), each) for each in tomllib.load(file)["known"]
        )


def explain(tool: Tool, output: str) -> tuple[str, str]:
    """Problem and fix for the first known failure in a tool's output, two empty texts when there is none."""
    for pattern, known in _known():
        if tool.value in known.get("tools", (tool.value,)) and pattern.search(output):
            return known["problem"], known["fix"]
    return "", ""


def explain_ending(exit_code: int) -> tuple[str, str]:
    """Problem and fix for the way a process ended when its output says nothing known."""
    if exit_code in (-9, 137):
        return (
            "The program was killed.",
            "Usually the machine ran out of memory: record without stacks and memory, or fewer steps.",
        )
    if exit_code in (-11, 139):
        return (
            "The program crashed (segmentation fault).",
            "Run it once without recording; if it works, record less.",
        )
    if exit_code == 127:
        return "The command was not found.", "Check the path of the interpreter or program."
    return f"The program ended with exit code {exit_code}.", "Its output says why."
