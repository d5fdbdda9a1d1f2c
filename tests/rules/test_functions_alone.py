"""What is said of a recording that holds Python's functions and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import waits_for_a_lock
from rules.verdict.verdict import verdict
from tests.parsers.chrome.traces import opened, text_of


def told(folder: Path, *spans: tuple[str, int, int, int]) -> Finding:
    """Functions of (name, thread, start, end) in ms, as VizTracer records them."""
    events = [
        {"ph": "X", "pid": 1, "tid": thread, "name": name, "ts": 1000 * start, "dur": 1000 * (end - start)}
        | {"cat": "FEE"}
        for name, thread, start, end in spans
    ]
    trace = opened(folder, text_of(events))
    diagnosis = diagnose(trace)
    finding = next(each for each in diagnosis.findings if each.rule == "cpu-recording")
    assert verdict(Analysis(trace), diagnosis) == finding.title
    return finding


def test_the_time_is_told_by_function_and_by_the_programs_own_lines(tmp_path: Path) -> None:
    finding = told(
        tmp_path,
        ("main (/home/me/run.py:3)", 7, 0, 100),
        ("parse (/home/me/run.py:9)", 7, 10, 90),
        ("dot (numpy/core.py:4)", 7, 20, 90),
    )
    assert finding.title == "No GPU activity was recorded, only the CPU's: 70 % in dot (numpy/core.py:4)"
    own = finding.explanation.partition("In the program's own code: ")[2]
    assert own.startswith("parse (/home/me/run.py:9) (80 %) and main (/home/me/run.py:3) (20 %)")


@pytest.mark.parametrize(
    ("waits", "busiest"), [("_thread.lock.acquire", "work"), ("time.sleep", "time.sleep")]
)
def test_a_thread_that_waits_for_a_lock_is_not_the_busiest(tmp_path: Path, waits: str, busiest: str) -> None:
    main = [("main", 7, 0, 100), (waits, 7, 5, 100)]
    title = told(tmp_path, *main, ("work", 8, 10, 90)).title
    assert title.rpartition(" % in ")[2].strip("“”") == busiest


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("_thread.lock.acquire", True),
        ("_thread.RLock.__enter__", True),
        ("_multiprocessing.SemLock.acquire", True),
        ("<built-in method acquire of _thread.lock object at 0x7f00>", True),
        ("<built-in method append of list object at 0x7f00>", False),
        ("acquire (/home/me/pool.py:3)", False),
        ("time.sleep", False),
    ],
)
def test_only_built_in_locks_wait_for_others(name: str, waits: bool) -> None:
    assert waits_for_a_lock(name) is waits
