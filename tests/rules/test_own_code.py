"""A saved profile of Python tells in which of the program's own functions the time of libraries is."""

from __future__ import annotations

import pytest

from parsers.model import ResultColumn, ResultTable
from parsers.model.builder import TraceBuilder
from parsers.model.results import OWN_CODE, Cell, TimeOf, Totals
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from rules.verdict.verdict import verdict

ROWS: tuple[tuple[Cell, ...], ...] = (("copy_", 3.0, 30.0), ("startswith", 2.0, 20.0), ("rest", 5.0, 50.0))


def told(own: ResultTable) -> tuple[str, str]:
    """The verdict and the account of these functions beside those of ``ROWS``."""
    columns = (ResultColumn("Name"), ResultColumn("Time", "s"), ResultColumn("Share", "%"))
    builder = TraceBuilder()
    builder.tables += (
        ResultTable("Functions of cProfile", columns, ROWS, totals=(Totals(TimeOf.PROGRAM, 0, 1, 2),)),
        own,
    )
    analysis = Analysis(builder.build())
    diagnosis = diagnosis_of(analysis)
    account = next((each.account for each in diagnosis.findings if each.rule == "printed-times"), "")
    return verdict(analysis, diagnosis), str(account)


def own_functions(*rows: tuple[str, float, str | None, float]) -> ResultTable:
    """Rows of the program's own functions: name, percent of 10 s, what it is mostly in, and the seconds of that."""
    made: list[tuple[Cell, ...]] = [
        (name, share / 10, share, below, part) for name, share, below, part in rows
    ]
    return ResultTable("Own functions of cProfile", OWN_CODE, tuple(made))


@pytest.mark.parametrize(
    ("share", "seconds", "title"),
    [
        (20.0, 1.0, "20 % of the program's time is in screen (run.py:12), mostly in load"),
        (20.0, 0.9, "20 % of the program's time is in screen (run.py:12)"),
        (19.0, 1.0, "50 % of the program's time is in rest"),
    ],
)
def test_the_own_function_that_calls_libraries_is_told_first(
    share: float, seconds: float, title: str
) -> None:
    own = own_functions(("screen (/home/me/run.py:12)", share, "load (/lib/python3/module.py:3)", seconds))
    said, account = told(own)
    assert said == title
    assert ("By the program's own functions, with the libraries they call" in account) is (share >= 20.0)


@pytest.mark.parametrize("below", ["<listcomp> (/lib/python3/a.py:3)", "screen (/lib/python3/a.py:3)"])
def test_what_says_nothing_of_what_runs_below_is_left_out(below: str) -> None:
    title, _ = told(own_functions(("screen (/home/me/run.py:12)", 60.0, below, 5.0)))
    assert title == "60 % of the program's time is in screen (run.py:12)"


def test_a_long_place_is_told_by_its_function() -> None:
    name = "screen_all_of_the_molecules (/home/me/screening_of_molecules.py:12)"
    title, _ = told(own_functions((name, 60.0, None, 0.0)))
    assert title == "60 % of the program's time is in screen_all_of_the_molecules"
