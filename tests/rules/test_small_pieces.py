"""Data in pieces that are too small is told first, before the copies of both directions that belong to it."""

from __future__ import annotations

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.base import Severity
from rules.verdict.verdict import verdict
from tests.rules.builder import TinyTrace, steps


def said(bytes_each: int) -> str:
    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(5, 9, "HtoD", 1, bytes=bytes_each, launch_us=1.0)
        trace.operation(9, 12, "vecAdd", 2.5, launch_us=1.0)
        trace.copy(12, 17, "DtoH", 4, bytes=bytes_each, launch_us=1.0)

    trace = steps(120, 13, body).build()
    diagnosis = diagnose(trace)
    loud = [each.rule for each in diagnosis.findings if each.severity is Severity.HIGH]
    assert {"copies-to-gpu", "copies-from-gpu"} <= set(loud)
    return verdict(Analysis(trace), diagnosis)


def test_small_pieces_come_before_their_copies() -> None:
    assert said(8_000).startswith("The work is cut into too small pieces")


def test_larger_pieces_are_copies_of_both_directions() -> None:
    assert said(66_000).startswith("Copies to and from the GPU are not overlapped")
