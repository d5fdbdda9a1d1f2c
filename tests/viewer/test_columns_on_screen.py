"""Every column of figures says what it is of, and tables that speak of one thing give it one number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

import resources
from parsers.model.units import duration
from viewer.panels.tables.table_model import TEXTS, Column, Show
from viewer.panels.tables.table_view import TableView
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "hands.md"
REPORT = "Kernel report"
USUAL = ("samples/sync_item.pt.trace.json.gz", "samples/straggler_four_ranks", "samples/kernels.raw.csv.gz")
ELSEWHERE = (  # below the shared data
    ("real/lm.pt.trace.json.gz",),
    ("ddp/straggler_cpu.rank*.pt.trace.json.gz",),
    ("nsys/sync_item.sqlite",),
    ("serve/engine.pt.trace.json.gz", "serve/engine.requests.jsonl"),
    ("public/chrome/tracelens__traces__mi300__resnet_act_checkpoint.json.gz",),
    ("real/jax_eager.xplane.pb",),
    ("real/memory_growing.pt.trace.json.gz", "real/memory_growing.snapshot.pickle.gz"),
    ("real/gloo.rank*.pt.trace.json.gz",),
    ("ncu/kernels.ncu-rep.gz",),
)


def told_columns() -> dict[str, str]:
    """The columns that the document tells of each tab."""
    text = DOCUMENT.read_text("utf-8").partition("## What each column is of")[2]
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| Tab "):
            tabs, columns, _ = (each.strip() for each in line.strip("|").split("|"))
            for tab in re.findall(r"\*([^*]+)\*", tabs) or [tabs]:
                found[tab] = f"{found.get(tab, '')}, {columns}"
    return found


def tables_of(window: MainWindow, qtbot: QtBot) -> Iterator[tuple[str, TableView]]:
    """Every table of every tab, and that of a kernel report."""
    for title in window.panels.titles():
        show_tab(window, qtbot, title)
        wait_until_ready(qtbot, window)
        for table in window.panels.tabs.currentWidget().tables:
            yield title, table
    if window.kernel_report is not None:
        yield REPORT, window.kernel_report.table


def figures(table: TableView) -> list[Column]:
    return [each for each in table.rows.columns if each.show not in TEXTS or each.show is Show.FIGURE]


def require_told_columns(window: MainWindow, qtbot: QtBot) -> None:
    """Raises where a column of figures says nothing of itself, or the document says nothing of it."""
    told, seen = told_columns(), 0
    for tab, table in tables_of(window, qtbot):
        for column in figures(table):
            assert column.hint, f"{tab}: {column.title} does not say what it is of"
            listed = told[tab].split(", ")
            assert column.title in told[tab] or "any" in listed, f"{tab}: {column.title} is in no row"
            seen += 1
    assert seen > 5


def require_kernels_that_add_up(window: MainWindow, qtbot: QtBot) -> None:
    """Raises where the rows of *Kernels* hold another number of calls, time or share than their launches."""
    analysis = window.document.analysis
    assert analysis is not None
    show_tab(window, qtbot, "Kernels")
    rows = window.panels.tabs.currentWidget().tables[0].rows
    start, end = window.document.window
    events = analysis.trace.events
    work = analysis.trace.gpu_operations
    inside = work[(events.start[work] >= start) & (events.start[work] < end)]
    assert rows.shown("calls").sum() == len(inside)
    assert rows.shown("total_ns").sum() == events.duration[inside].sum()
    assert rows.shown("gpu_time_share").sum() == pytest.approx(1.0)
    assert rows.shown("mean_ns") * rows.shown("calls") == pytest.approx(rows.shown("total_ns"), rel=0.001)


def require_steps_that_fill_the_box(window: MainWindow, qtbot: QtBot) -> None:
    """Raises where the steps of *Steps* are not those, or not as long, as the box of steps says."""
    document, box = window.document, window.toolbar.steps.box
    assert document.analysis is not None
    show_tab(window, qtbot, "Steps")
    table = window.panels.tabs.currentWidget().tables[0]
    lengths = table.rows.shown("duration_ns")
    assert len(lengths) == len(document.steps)
    texts = [box.itemText(row) for row in range(box.count())]
    assert texts[0].endswith(duration(int(np.diff(document.analysis.window)[0])))
    for length in lengths.tolist():
        assert any(text.endswith(f"   {duration(round(length))}") for text in texts)
    busy, idle = table.rows.shown("busy_share"), table.rows.shown("gpu_idle_ns")
    assert (1 - busy) * lengths == pytest.approx(idle, abs=0.005 * lengths.max())


def require_as_many_engine_steps_as_steps(window: MainWindow, qtbot: QtBot) -> None:
    """Raises where *Serving* counts other engine steps than the box of steps, or other requests than its lane."""
    show_tab(window, qtbot, "Serving")
    wait_until_ready(qtbot, window)
    engine, requests = window.panels.tabs.currentWidget().tables[:2]
    names = engine.rows.frame["name"].tolist()
    whole = [not name.startswith(" ") for name in names]
    counts = engine.rows.shown("count")
    assert counts[whole].max() <= len(window.document.steps) <= counts.sum()
    assert requests.rows.rowCount() > 0


def judge(window: MainWindow, qtbot: QtBot) -> None:
    require_told_columns(window, qtbot)
    titles = window.panels.titles()
    if "Kernels" in titles and not window.document.trace.kernels:
        require_kernels_that_add_up(window, qtbot)
    if "Steps" in titles and len(window.document.trace.gpu_operations):
        require_steps_that_fill_the_box(window, qtbot)
    if "Serving" in titles:
        require_as_many_engine_steps_as_steps(window, qtbot)


@pytest.mark.thorough
@pytest.mark.parametrize("sample", USUAL)
def test_every_column_of_a_sample_says_what_it_is_of(
    sample: str, empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.open([resources.path(sample)])
    wait_until_ready(qtbot, empty_window)
    judge(empty_window, qtbot)


@pytest.mark.thorough
@pytest.mark.parametrize("files", ELSEWHERE, ids=lambda files: Path(files[0]).name)
def test_every_column_of_other_kinds_of_recordings_says_what_it_is_of(
    files: tuple[str, ...], shared_data: Path, empty_window: MainWindow, qtbot: QtBot
) -> None:
    paths = [path for each in files for path in sorted(shared_data.glob(each))]
    if not paths:
        pytest.skip(f"{files[0]} is not among the recordings of this machine")
    empty_window.open(paths)
    wait_until_ready(qtbot, empty_window)
    judge(empty_window, qtbot)
