"""Two recordings without a GPU side by side: by region, with the phases of the thread, and no word of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from rules.comparison.bridge import REGIONS
from rules.comparison.compare import compare
from rules.comparison.findings import Change, FindingChange
from tests.opened import diagnosed
from tests.opened import opened as read
from viewer.comparison.window import ComparisonWindow
from viewer.reports.comparison_report import finding_sides

from .conftest import wait_until_laid_out
from .every_window import until
from .test_comparison_window import close, opened
from .test_home import click


@pytest.fixture
def window(qapp: QApplication, fixtures: Path) -> Iterator[ComparisonWindow]:
    shown = opened(fixtures / "gloo" / "width1024.rank0.pt.trace.json.gz")
    shown.read([fixtures / "gloo" / "width2048.rank0.pt.trace.json.gz"])
    until(lambda: shown.steps is not None)
    yield shown
    close(shown)


def test_regions_are_what_the_bridge_the_ribbons_and_a_tab_speak_of(
    window: ComparisonWindow, qtbot: QtBot
) -> None:
    assert window.bridge.title == REGIONS
    assert [row.label for row in window.bridge.chart.rows][1] == "backward"
    assert [before.label for before, _ in window.twins.ribbons.pairs][:3] == ["forward", "data", "backward"]
    titles = [window.details.tabText(place) for place in range(window.details.count())]
    assert "Regions" in titles
    assert "Kernels" not in titles
    assert not window.details.kernels.isVisible()
    wait_until_laid_out(qtbot, window.buttons.copy)
    click(window.buttons.copy)
    assert "kernel" not in QGuiApplication.clipboard().text().lower()


def test_a_bar_of_a_region_marks_its_ranges_on_both_sides(window: ComparisonWindow, qtbot: QtBot) -> None:
    chart = window.bridge.chart
    wait_until_laid_out(qtbot, chart)
    place = next(index for index, row in enumerate(chart.rows) if row.label == "backward")
    qtbot.mouseClick(chart, Qt.MouseButton.LeftButton, pos=chart.box(place).center().toPoint())
    for view in window.twins.views:
        assert {each.name for each in view.state.evidence} == {"backward"}


def test_where_another_rank_is_late_after_than_before_each_side_names_its_own(fixtures: Path) -> None:
    paths = [fixtures / "gloo" / f"width1024.rank{rank}.pt.trace.json.gz" for rank in range(2)]
    late = next(each for each in diagnosed(*paths).findings if each.rule == "cpu-late-rank")
    other = replace(late, culprit=replace(late.culprit, name="rank 7"))
    result = compare(read(*paths), read(*paths))
    for after, told in ((other, (f" ({late.culprit.said})", " (rank 7)")), (late, ("%", "%"))):
        change = FindingChange(late, after, 1e6, 2e6, Change.MORE)
        assert [
            each.endswith(end) for each, end in zip(finding_sides(change, result), told, strict=True)
        ] == [True] * 2
