"""The guide to idle time says what the program does: its tables of causes, and the gap that it draws."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rules.analysis.analysis import Analysis
from rules.analysis.idle import attribution
from rules.analysis.idle.causes import Cause
from tests.rules.builder import TinyTrace

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "idle-time.md"


def drawn() -> Analysis:
    trace = TinyTrace()
    trace.operation(10, 100, "gemm", 0)
    trace.call(80, 110, "cudaStreamSynchronize")
    trace.region(115, 400, "tokenize")
    trace.op(430, 480, "aten::relu")
    trace.operation(475, 500, "relu", 460, launch_us=8)
    return Analysis(trace.build())


def test_the_drawn_gap_gets_the_causes_that_the_guide_tells() -> None:
    idle = drawn().idle
    rows = [
        (
            int(idle.start[row]) // 1000,
            int(idle.end[row]) // 1000,
            Cause(idle.cause[row]),
            idle.culprit_of(row).text,
        )
        for row in range(len(idle))
    ]
    assert rows == [
        (100, 115, Cause.SYNCHRONIZATION, "cudaStreamSynchronize"),
        (115, 400, Cause.HOST, "tokenize"),
        (400, 430, Cause.LAUNCH, "Python outside any region"),
        (430, 475, Cause.LAUNCH, "aten::relu"),
    ]


def test_the_tables_of_the_guide_are_those_of_the_program_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables: list[list[tuple[str, str]]] = []
    first = attribution._first

    def noted(rows: Any, *rest: Any) -> Any:
        tables.append([(row.name, row.cause.label) for row in rows])
        return first(rows, *rest)

    monkeypatch.setattr(attribution, "_first", noted)
    assert len(drawn().idle)
    _, *parts = GUIDE.read_text("utf-8").split("| Name | When | Cause |\n")
    told = [re.findall(r"^\| ([^|*-][^|]*) \| [^|]+ \| ([^|]+) \|$", part, re.MULTILINE) for part in parts]
    of_the_cpu, of_the_work = tables[:2]
    assert told == [of_the_work, of_the_cpu]
