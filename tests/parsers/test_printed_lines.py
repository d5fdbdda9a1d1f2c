"""Scalene, line_profiler and the profilers of PyTorch Lightning say which line or action takes the program's time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultTable, TraceError, UnknownFormat
from parsers.model.results import TimeOf

LINES = """Timer unit: 1e-06 s

Total time: 0.4 s
File: train.py
Function: load at line 3

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
     3                                           def load(path):
     4        10     300000.0  30000.0     75.0      data = read(path)
     5        10     100000.0  10000.0     25.0      return data

Total time: 1.0 s
File: train.py
Function: main at line 8

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
     9        10     {us:.1f}   1.0     {share:.1f}      rows = load(path)
"""
SIMPLE = """FIT Profiler Report

------------------------------------------------------------------------
|  Action                        \t|  Mean duration (s)\t|Num calls\t|  Total time (s)\t|  Percentage %\t|
|  Total                         \t|  -              \t|30       \t|  20.0           \t|  100 %     \t|
|  run_training_epoch            \t|  16.0           \t|1        \t|  16.0           \t|  80.0      \t|
|  run_training_batch            \t|  1.2            \t|10       \t|  12.0           \t|  60.0      \t|
|  [LightningModule]Net.optimizer_step\t|  1.1       \t|10       \t|  11.0           \t|  55.0      \t|
|  [Strategy]DDPStrategy.backward\t|  0.2            \t|10       \t|  2.0            \t|  10.0      \t|
|  [Strategy]DDPStrategy.training_step\t|  0.1       \t|10       \t|  1.0            \t|  5.0       \t|
|  [_TrainingEpochLoop].train_dataloader_next\t|  0.3\t|10       \t|  3.0            \t|  15.0      \t|
|  [Callback]Watch.on_train_batch_start\t|  0.05\t|10\t|  0.5\t|  2.5\t|
|  [Callback]Save{'every': 1}.on_train_end\t|  0.5   \t|1        \t|  0.5            \t|  2.5       \t|
"""
OLD = """Profiler Report

Action              \t|  Mean duration (s)\t|  Total time (s)
-----------------------------------------------------------------
get_train_batch     \t|  1.0            \t|  6.0
model_forward       \t|  0.5            \t|  3.0
"""


def tables_of(folder: Path, content: str | bytes) -> tuple[ResultTable, ...]:
    path = folder / "profile"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tuple(open_trace([path]).tables)


def test_lines_of_scalene_are_named_by_their_function(fixtures: Path) -> None:
    (table,) = open_trace([fixtures / "stacks" / "feed.scalene.json"]).tables
    assert table.column("Line")[:2] == ("compress (/home/me/feed.py:23)", "parse (/home/me/feed.py:9)")
    assert table.column("Code")[0] == "zlib.compress(data, 6)"
    assert sum(float(share or 0) for share in table.column("Share")) == pytest.approx(100.0, abs=0.1)
    assert [each.of for each in table.totals] == [TimeOf.PROGRAM]
    assert table.totals[0].whole == pytest.approx(4.12, abs=0.01)


def test_a_line_outside_functions_is_named_by_what_it_says(tmp_path: Path) -> None:
    line = {"lineno": 1, "line": "import torch\n", "n_cpu_percent_c": 40.0}
    inside = {"lineno": 4, "line": "    step()\n", "n_cpu_percent_python": 60.0}
    profile = {"alloc_samples": 0, "elapsed_time_sec": 2.0, "files": {"a.py": {"lines": [line, inside]}}}
    (table,) = tables_of(tmp_path, json.dumps(profile))
    assert table.column("Line") == ("<module> (a.py:4)", "import torch (a.py:1)")
    assert table.column("Time") == (1.2, 0.8)


@pytest.mark.parametrize(
    ("percent", "title", "whole"),
    [
        (5.1, "Lines of Scalene", 1000.0),
        (4.9, "Lines of Scalene, 49.0 s of the 1,000 s that it states", 49.0),
    ],
)
def test_a_stated_time_that_lines_hardly_hold_is_no_time_of_the_program(
    percent: float, title: str, whole: float, tmp_path: Path
) -> None:
    line = {"lineno": 4, "line": "    step()\n", "n_cpu_percent_python": percent}
    profile = {"alloc_samples": 0, "elapsed_time_sec": 1000.0, "files": {"a.py": {"lines": [line]}}}
    (table,) = tables_of(tmp_path, json.dumps(profile))
    assert table.title == title
    assert table.totals[0].whole == pytest.approx(whole)
    assert table.column("Share") == (percent,)


@pytest.mark.parametrize("files", [[], {"a.py": {"lines": [{"lineno": "x"}]}}, {"a.py": 5}])
def test_another_layout_of_scalene_is_refused(files: object, tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        tables_of(tmp_path, json.dumps({"alloc_samples": 0, "files": files}))


def test_scalene_that_saw_no_line_at_work_is_told_as_that(tmp_path: Path) -> None:
    files = {"a.py": {"lines": [{"lineno": 1, "line": "import torch", "n_peak_mb": 60.0}]}}
    with pytest.raises(TraceError, match="no line that took time"):
        tables_of(tmp_path, json.dumps({"alloc_samples": 6, "files": files}))


def test_what_line_profiler_prints_is_told_by_its_fixture(fixtures: Path) -> None:
    tables = open_trace([fixtures / "stacks" / "feed.lines.txt"]).tables
    assert [table.title for table in tables] == ["Lines of parse", "Lines of prepare", "Lines of rank"]
    assert [len(table.totals) for table in tables] == [1, 0, 0]


@pytest.mark.parametrize(("share", "telling"), [(50.0, "load"), (49.9, "main")])
def test_a_line_that_calls_a_function_that_was_followed_leads_to_it(
    share: float, telling: str, tmp_path: Path
) -> None:
    tables = tables_of(tmp_path, LINES.format(us=share * 1e4, share=share))
    assert tables[0].title == f"Lines of {telling}"
    assert tables[0].totals[0].whole == 1.0
    assert next(table for table in tables if table.title == "Lines of load").rows[0] == (
        "load (train.py:4)",
        10.0,
        0.3,
        75.0,
        "data = read(path)",
    )


def test_a_function_that_calls_itself_ends(tmp_path: Path) -> None:
    itself = LINES.format(us=9e5, share=90.0).replace("read(path)", "main(path)")
    assert tables_of(tmp_path, itself)[0].title == "Lines of load"


def test_an_action_owns_what_the_actions_inside_it_leave(tmp_path: Path) -> None:
    (table,) = tables_of(tmp_path, SIMPLE)
    own = dict(zip(table.column("Action"), table.column("Own time"), strict=True))
    assert own == {
        "optimizer_step": 8.0,
        "train_dataloader_next": 3.0,
        "backward": 2.0,
        "run_training_epoch": 0.5,
        "Watch.on_train_batch_start": 0.5,
        "run_training_batch": 1.0,
        "training_step": 1.0,
        "Save.on_train_end": 0.5,
    }
    assert table.column("Own share")[0] == 40.0
    assert table.totals[0].whole == 20.0


def test_old_reports_state_neither_calls_nor_a_total(tmp_path: Path) -> None:
    (table,) = tables_of(tmp_path, OLD)
    assert table.rows[0][:3] == ("get_train_batch", None, 6.0)
    assert table.column("Own share")[0] == pytest.approx(66.7, abs=0.1)


@pytest.mark.parametrize(
    "step", ["optimizer_step_with_closure_0", "optimizer_step_and_closure_1", "optimizer_step"]
)
def test_a_step_of_an_optimizer_leaves_to_others_what_they_take_in_it(step: str, tmp_path: Path) -> None:
    rows = {"run_training_batch": 12.0, step: 11.0, "training_step_and_backward": 9.0, "backward": 6.0}
    rows |= {"model_forward": 3.0, "get_train_batch": 2.0, "fetch_next_train_batch": 2.0}
    lines = [f"{name}\t|  {seconds / 10}\t|10\t|  {seconds}\t|  1.0\t|" for name, seconds in rows.items()]
    head = "Action\t|  Mean duration (s)\t|Num calls\t|  Total time (s)\t|  Percentage %\t|\n"
    (table,) = tables_of(tmp_path, head + "\n".join(lines))
    own = dict(zip(table.column("Action"), table.column("Own time"), strict=True))
    assert own == {
        "backward": 6.0,
        "model_forward": 3.0,
        "optimizer_step": 2.0,
        "fetch_next_train_batch": 2.0,
        "run_training_batch": 1.0,
        "training_step_and_backward": 0.0,
        "get_train_batch": 0.0,
    }


@pytest.mark.parametrize("name", ["simple.txt", "advanced.txt.gz"])
def test_both_profilers_of_lightning_find_the_loader(name: str, fixtures: Path) -> None:
    (table,) = open_trace([fixtures / "lightning" / name]).tables
    assert table.column("Action")[0] == "train_dataloader_next"
    assert table.column("Own share")[0] == pytest.approx({"simple.txt": 90.1}.get(name, 96.1), abs=0.1)


@pytest.mark.parametrize(
    "text",
    [
        "Line Contents are printed by Line # and Hits\n",
        "Action | Mean duration of an action\n",
        "Profile stats for: records\n 5 function calls in 1.0 seconds\n",
    ],
)
def test_texts_about_these_profilers_are_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        tables_of(tmp_path, text)
