"""What is said of a recording that holds ranges on threads and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rules import diagnosis_of
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict
from tests.parsers.chrome.traces import opened, text_of


def said(folder: Path, *spans: tuple[str, int, int, int], **more: Any) -> str:
    """Ranges of (name, thread, start, end) in ms."""
    events = [
        {"ph": "X", "pid": 1, "tid": thread, "name": name, "ts": 1000 * start, "dur": 1000 * (end - start)}
        | more
        for name, thread, start, end in spans
    ]
    analysis = Analysis(opened(folder, text_of(events)))
    return verdict(analysis, diagnosis_of(analysis))


def test_the_range_is_told_in_which_the_busiest_thread_is_longest(tmp_path: Path) -> None:
    other = [("idle", 8, 0, 10), ("mark", 8, 12, 12)]
    busy = [("loop", 7, 0, 100), ("read", 7, 10, 40), ("read", 7, 50, 80), ("write", 7, 80, 90)]
    assert said(tmp_path, *other, *busy) == (
        "No GPU activity was recorded, only ranges: the busiest thread spends 60 % of the time in “read”"
    )


@pytest.mark.parametrize(("length", "told"), [(4, False), (6, True)])
def test_ranges_that_take_hardly_any_of_the_time_are_not_told(
    tmp_path: Path, length: int, told: bool
) -> None:
    text = said(tmp_path, ("tick", 7, 0, 1), ("tick", 7, 100 - length + 1, 100))
    assert text.startswith("No GPU activity was recorded")
    assert ("in “tick”" in text) is told


def test_beside_anything_that_is_recognised_ranges_are_not_all(tmp_path: Path) -> None:
    assert "only ranges" not in said(tmp_path, ("aten::mm", 7, 0, 50), ("aten::mm", 7, 50, 90), cat="cpu_op")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("attend_0", "attend_1", "attend_2", "feed"), "90 % of the time in attend_0 and 2 like it"),
        (("attend_a", "attend_b", "attend_c", "feed"), "30 % of the time in attend_a"),
        (("1", "2", "3", "feed"), "90 % of the time in “1” and 2 like it"),
    ],
)
def test_names_that_differ_in_their_numbers_alone_are_told_together(
    tmp_path: Path, names: tuple[str, ...], told: str
) -> None:
    ends = (0, 30, 60, 90, 100)
    spans = [(name, 7, ends[place], ends[place + 1]) for place, name in enumerate(names)]
    assert said(tmp_path, *spans).endswith(told)


@pytest.mark.parametrize(("name", "waits"), [("NEGOTIATE_ALLREDUCE", True), ("ALLREDUCE", False)])
def test_negotiating_in_horovod_is_waiting_for_the_last_rank(tmp_path: Path, name: str, waits: bool) -> None:
    assert ("waits for the last rank" in said(tmp_path, (name, 7, 0, 90))) is waits


def test_a_thread_of_ray_that_waits_is_not_the_busiest_and_tasks_are_told_by_name(tmp_path: Path) -> None:
    driver = [("ray.wait", 7, 0, 100)]
    worker = [("worker_idle", 8, 0, 40), ("evaluate", 8, 40, 90), ("task:execute", 8, 41, 89)]
    assert said(tmp_path, *driver, *worker) == (
        "No GPU activity was recorded, only ranges: the busiest thread spends 50 % of the time in “evaluate”"
    )


def test_where_every_thread_of_ray_waits_that_is_told(tmp_path: Path) -> None:
    assert said(tmp_path, ("ray.wait", 7, 0, 100)).endswith("spends 100 % of the time in ray.wait")


def test_a_thread_that_waits_for_xla_s_threads_is_not_the_busiest(tmp_path: Path) -> None:
    waits = ("ThunkExecutor::Execute (wait for completion)", 7, 0, 100)
    told = said(tmp_path, waits, ("ThunkExecutor::Execute", 8, 0, 30), ("ThunkExecutor::Execute", 9, 40, 60))
    assert told.endswith("spends 30 % of the time in ThunkExecutor::Execute")
