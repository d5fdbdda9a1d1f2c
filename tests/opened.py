"""Recordings that are read and judged once for all tests of a process; what comes from here is never changed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from parsers import open_trace
from parsers.model import Trace
from rules import Diagnosis, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, plan_of


def opened(*paths: Path) -> Trace:
    """The run that these files are; raises what ``open_trace`` raises."""
    return _opened(paths)


def analysed(*paths: Path) -> Analysis:
    """Its analysis with the thresholds that apply unless somebody changes them."""
    return _analysed(paths)


def diagnosed(*paths: Path) -> Diagnosis:
    """Its diagnosis, which rests on ``analysed``."""
    return _diagnosed(paths)


def planned(*paths: Path) -> Plan:
    """The plan of its fixes, which its diagnosis rests on."""
    return plan_of(analysed(*paths))


@cache
def _opened(paths: tuple[Path, ...]) -> Trace:
    return open_trace(paths)


@cache
def _analysed(paths: tuple[Path, ...]) -> Analysis:
    return Analysis(_opened(paths))


@cache
def _diagnosed(paths: tuple[Path, ...]) -> Diagnosis:
    return diagnosis_of(_analysed(paths))
