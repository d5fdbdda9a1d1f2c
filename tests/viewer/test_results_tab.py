"""The results tab shows the tables of benchmarks that were opened with a recording, and is not there without any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
from pytestqt.qtbot import QtBot

from parsers import open_trace
from parsers.model import Trace
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView
from viewer.panels.tabs.results import ResultsPanel
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

COMPARISON = """[------------------- gemm -------------------]
           |  torch.float32
1 threads: -----------------
      512  |       32.5
      1024 |       40.5

Times are in microseconds (us).
"""


def test_the_tab_shows_one_table_and_a_list_where_there_are_several(
    window: MainWindow, trace: Trace, qtbot: QtBot, tmp_path: Path
) -> None:
    assert "Results" not in window.panels.titles()
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text(COMPARISON)
    two.write_text(COMPARISON.replace("gemm", "conv").replace("      1024 |       40.5\n", ""))
    tables = open_trace([one]).tables
    window.document.show(replace(trace, tables=tables))
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Results")
    panel = window.findChild(ResultsPanel)
    assert isinstance(panel, ResultsPanel)
    assert isinstance(panel.table, TableView)
    assert panel.table.model().rowCount() == 2
    assert not panel.choice.isVisible()
    window.document.show(replace(trace, tables=(*tables, *open_trace([two]).tables)))
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Results")
    assert [panel.choice.itemText(place)[-4:] for place in range(2)] == ["gemm", "conv"]
    panel.choice.setCurrentIndex(1)
    assert panel.table.model().rowCount() == 1


def test_a_text_that_a_tool_does_not_state_is_empty(
    window: MainWindow, trace: Trace, qtbot: QtBot, fixtures: Path
) -> None:
    tables = open_trace([fixtures / "operators" / "execution_trace.json.gz"]).tables
    window.document.show(replace(trace, tables=tables))
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Results")
    panel = window.findChild(ResultsPanel)
    assert isinstance(panel, ResultsPanel)
    assert isinstance(panel.table, TableView)
    model = panel.table.model()
    texts = {str(model.index(row, 1).data()) for row in range(model.rowCount())}
    assert "" in texts
    assert not texts & {"nan", "None"}


def test_figures_alone_stand_beside_one_another_at_the_left(qtbot: QtBot, qapp: object) -> None:
    columns = (Column("id", "id", Show.NUMBER), Column("end", "end", Show.NUMBER))
    table = TableView(columns, "Requests")
    qtbot.addWidget(table)
    table.resize(900, 200)
    table.show()
    table.set_frame(pd.DataFrame({"id": [0.0, 1.0], "end": [2353.0, 1761.0]}))
    header = table.horizontalHeader()
    assert header.sectionSize(0) < 150, "a heading stands by its figures"
    assert header.sectionSize(0) + header.sectionSize(1) < 300
