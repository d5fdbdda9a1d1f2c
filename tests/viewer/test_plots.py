"""The plots of the tabs keep their numbers and follow the theme, however often it changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import resources
from parsers.model import Counter, Trace
from viewer.appearance import theme
from viewer.appearance.widgets import ElidedLabel
from viewer.panels.charts.plot import Plot
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready


def ticks(plot: Plot) -> dict[str, list[str]]:
    """What is written at both axes."""
    found = {}
    for side, low, high in zip(("bottom", "left"), *np.transpose(plot.getViewBox().viewRange()), strict=True):
        axis: Any = plot.getAxis(side)
        scale = axis.autoSIPrefixScale * axis.scale
        found[side] = [
            text
            for spacing, values in axis.tickValues(low, high, 300)
            for text in axis.tickStrings(values, scale, spacing)
        ]
    return found


@pytest.fixture
def with_memory(trace: Trace) -> Trace:
    """The run with two counters before its counter of memory."""
    from dataclasses import replace

    times = np.array([0, 9_000_000, 20_000_000])
    names = (("power", "W"), ("load", "%"), ("allocated memory", "bytes"))
    counters = tuple(Counter(name, unit, times, np.array([1.0, 5e9, 2e9])) for name, unit in names)
    return replace(trace, counters=counters)


@pytest.mark.thorough
@pytest.mark.parametrize("title", ["Memory", "Roofline"])
def test_numbers_and_ground_follow_every_change_of_the_theme(
    empty_window: MainWindow, qtbot: QtBot, qapp: QApplication, with_memory: Trace, title: str
) -> None:
    window = empty_window
    window.resize(1366, 768)
    if title == "Memory":
        window.document.show(with_memory)
    else:
        window.open([resources.path("samples/cpu_python.pt.trace.json.gz")])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, title)
    plot = window.panels.tabs.currentWidget().findChild(Plot)
    plot.grab()  # only now it knows how much there is to show
    before = ticks(plot)
    assert ("10¹⁵" if title == "Roofline" else "5") in before["left"]  # operations/s of an H200; 5 GB
    for name in ("light", "contrast", "dark", "contrast"):
        window.acts.set_theme(name)
        wait_until_ready(qtbot, window)
        assert ticks(plot) == before
        picture = plot.grab().toImage()
        assert QColor(picture.pixel(3, 3)) == theme.current().panel
        for side in ("bottom", "left"):
            axis = plot.getAxis(side)
            room = axis.height() if side == "left" else axis.width()
            assert axis.label.boundingRect().width() <= room


def test_a_counter_of_memory_has_one_colour_everywhere(
    empty_window: MainWindow, qtbot: QtBot, with_memory: Trace
) -> None:
    empty_window.document.show(with_memory)
    wait_until_ready(qtbot, empty_window)
    show_tab(empty_window, qtbot, "Memory")
    panel = empty_window.panels.tabs.currentWidget()
    (curve,) = panel.plot.getPlotItem().listDataItems()
    on_the_timeline = theme.current().named(2)
    assert curve.opts["pen"].color() == on_the_timeline
    hint, named = sorted(panel.findChildren(ElidedLabel), key=lambda each: "snapshot" not in each.text())
    assert hint.isVisible()  # the counter says how much, and not what
    assert any(
        QColor(named.grab().toImage().pixel(x, named.height() // 2)) == on_the_timeline for x in range(14)
    )
