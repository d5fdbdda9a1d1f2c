"""The library: the tutorial runs, its names stay, its figures are those of the window, and what is wrong is said."""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import stallscope
from rules.analysis.analysis import Analysis
from stallscope.comparison import Comparison
from stallscope.diagnosis import Diagnosis, Finding
from stallscope.plots import Plots
from stallscope.run import Run
from viewer.statistics.kernels import kernel_table

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = {
    stallscope: "QueryError RecordingError compare open",
    Run: "api_calls arguments budget collectives columns copies counters diagnose events files fixes gaps kernels"
    " memory of operators plot query regions slice span steps table tables trace",
    Diagnosis: "as_json findings not_checked of verdict",
    Finding: "advice cannot_tell category ceiling_ns culprit evidence explanation rank rule severity title",
    Comparison: "as_json cautions findings kernels measures of step_ns verdict",
    Plots: "budget kernels steps",
}  # fmt: skip


@pytest.fixture(scope="session")
def run(fixtures: Path) -> Run:
    return stallscope.open(fixtures / "torch/memory_stack.pt.trace.json.gz")


@pytest.mark.thorough
def test_every_block_of_the_tutorial_runs(
    repository: Path, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file in (
        ("train", "torch/memory_stack"),
        ("before", "torch/elementwise_chain"),
        ("after", "torch/elementwise_chain"),
    ):
        shutil.copy(fixtures / f"{file}.pt.trace.json.gz", tmp_path / f"{name}.pt.trace.json.gz")
    (tmp_path / "holiday.jpg").write_bytes(b"\xff\xd8\xff\xe0 no recording")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((repository / "docs/library.md").read_text("utf-8"))
    assert len(blocks) > 10
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/library.md", "exec"), names)
    assert (tmp_path / "budget.png").stat().st_size > 1000


def test_the_names_of_the_library_stay() -> None:
    for where, names in NAMES.items():
        public = [name for name in dir(where) if not name.startswith("_")]
        listed = list(where.__all__) if inspect.ismodule(where) else public
        assert sorted(listed) == sorted(names.split())
    asked_for = set(NAMES[Run].split()) & {"kernels", "copies", "events", "memory", "gaps", "counters"}
    assert all(isinstance(getattr(Run, name), property) for name in asked_for)


def test_frames_hold_what_the_window_shows(run: Run) -> None:
    analysis = Analysis(run.trace)
    begin, end = run.span
    assert (begin, end) == analysis.window
    window = kernel_table(analysis, begin, end)
    table = run.table("kernel_summary")
    assert table["total_ns"].tolist() == window["total_ns"].tolist()
    assert np.shares_memory(run.events["start_ns"].to_numpy(), run.trace.events.start)
    assert (
        run.query("SELECT sum(duration_ns) AS t FROM kernels")["t"].iloc[0]
        == run.kernels["duration_ns"].sum()
    )
    budget = analysis.budgets(0)
    told = run.budget.set_index("part")["total_ns"]
    assert told["compute"] == budget.compute_ns


def test_a_slice_is_cut_exactly_and_holds_what_begins_in_it(run: Run) -> None:
    begin, end = run.span
    middle = (begin + end) // 2
    halves = [run.slice(begin, middle), run.slice(middle, end)]
    assert sum(len(half.kernels) for half in halves) == len(run.slice(begin, end).kernels)
    assert [half.budget["total_ns"].sum() for half in halves] == [middle - begin, end - middle]
    parts = sum(half.budget.set_index("part")["total_ns"].get("compute", 0) for half in halves)
    assert parts == run.budget.set_index("part")["total_ns"]["compute"]
    assert len(run.slice("0ms", "1ns").kernels) == 0
    with pytest.raises(ValueError, match="ends before it begins"):
        run.slice(2, 1)
    with pytest.raises(ValueError, match="is not a time"):
        run.slice("soon", 1)


def test_what_is_wrong_is_said_in_one_sentence(run: Run, tmp_path: Path) -> None:
    with pytest.raises(stallscope.RecordingError):
        stallscope.open(tmp_path / "nothing.json")
    with pytest.raises(stallscope.QueryError, match="no column"):
        run.query("SELECT nothing FROM kernels")
    with pytest.raises(KeyError, match="kernel_summary"):
        run.table("kernel")


def test_ranks_are_one_run(fixtures: Path) -> None:
    ranks = [fixtures / f"ddp/no_overlap.rank{rank}.pt.trace.json.gz" for rank in range(4)]
    run = stallscope.open(ranks)
    assert sorted(run.kernels["rank"].unique()) == [0, 1, 2, 3]
    assert run.collectives["instance"].notna().any()
    assert "rank 0" in set(run.budget["name"])
    assert run.plot.steps().axes[0].get_legend_handles_labels()[1] == [f"rank {rank}" for rank in range(4)]
