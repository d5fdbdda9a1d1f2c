"""Ranges for which a GPU waits have the colour of the wait: on the timeline, and in the flame graph."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from parsers.model import LaneKind, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from tests.viewer.conftest import show_tab, wait_until_laid_out, wait_until_ready
from viewer.appearance import theme
from viewer.panels.charts.icicle import ROW_HEIGHT
from viewer.panels.tabs.flame import FlamePanel
from viewer.timeline.kinds.base import style_of
from viewer.timeline.view import TimelineView
from viewer.window.main_window import MainWindow

from .test_lanes import color_of


@pytest.mark.parametrize("blames", [True, False])
def test_a_region_for_which_the_gpu_waits_has_the_colour_of_the_wait_but_not_beside_another_recording(
    view: TimelineView, small_run: Trace, blames: bool
) -> None:
    analysis, scene = Analysis(small_run), view.state.scene
    assert scene is not None
    events = small_run.events
    regions = [
        event for event in range(len(events)) if scene.trace.lanes[events.lane[event]].kind is LaneKind.REGION
    ]
    blamed = {culprit.text for culprit in analysis.idle.culprits}
    waited_for = next(each for each in regions if small_run.strings[int(events.name[each])] in blamed)
    view.set_analysis(None)
    before = color_of(scene, waited_for)
    scene.blames = blames
    view.set_analysis(analysis)
    now = color_of(scene, waited_for)
    assert (now == before) is not blames
    assert (now in theme.current().causes.values()) is blames


def test_a_phase_of_a_step_keeps_its_colour_however_long_the_gpu_waits_for_it() -> None:
    style = style_of(LaneKind.REGION)
    for name, kept in (("backward", True), ("optimizer.step", True), ("tokenize", False)):
        key = style.key(name)
        assert (style.blamed(key, Cause.HOST) == key) is kept


def test_the_flame_graph_has_the_colours_of_the_timeline(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Flame")
    flame = window.panels.findChild(FlamePanel)
    assert isinstance(flame, FlamePanel)
    flame.kind.setCurrentText("Regions")
    wait_until_ready(qtbot, window)
    wait_until_laid_out(qtbot, flame.view)
    nodes, left, width = flame.view.boxes()
    trace, tree = window.document.trace, flame.view.tree
    assert trace is not None
    assert tree is not None
    at = next(i for i, node in enumerate(nodes) if trace.strings[int(tree.name[node])] == "tokenize")
    middle = QPoint(round(left[at] + width[at] * 0.9), int(tree.depth[nodes[at]]) * ROW_HEIGHT + 4)
    qtbot.waitUntil(
        lambda: flame.view.grab().toImage().pixelColor(middle) == theme.current().cause(Cause.HOST)
    )
