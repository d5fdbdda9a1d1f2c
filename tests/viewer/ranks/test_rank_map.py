"""The map of a run of many ranks: what its cells show, how it is walked, and which timelines it opens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot

from rules.analysis.ranks.reasons import Why
from rules.summaries.facts import ManyRanksDiagnosis
from rules.summaries.findings import diagnosis_of_many
from rules.wording.late_ranks import doing
from tests.rank_runs import Run
from tests.rank_summaries import summaries_of
from tests.viewer.conftest import wait_until_ready
from tests.viewer.test_home import click, press
from viewer.appearance import theme
from viewer.loading.ranks import opening
from viewer.loading.ranks.opening import joined
from viewer.panels.ranks.heat import RankHeat
from viewer.panels.ranks.painting import MIN_WIDTH_FOR_TEXT, Callout, mark_cell, placed, shades, write_values
from viewer.statistics.rank_map import Measure, Order, RankMap, worst_of
from viewer.window.main_window import MainWindow

LATE, STEPS = 130, 12


@pytest.fixture(scope="session")
def facts() -> ManyRanksDiagnosis:
    run = Run(
        ranks=256,
        steps=STEPS,
        operators=4,
        stages=2,
        kernel_ns=100_000,
        straggler=LATE,
        since=5,
        slow_compute=1.5,
    )
    node = np.arange(256) // 8 == 3
    run.scale[::4, node] *= 1.3
    return diagnosis_of_many(joined(summaries_of(run, clocks=True)))[0]


def test_patterns_are_a_rank_from_a_step_on_and_a_node_in_every_fourth(facts: ManyRanksDiagnosis) -> None:
    node, rank = facts.patterns  # the one that covers more lateness first
    assert (rank.name, rank.course.since, rank.rows.tolist()) == (f"rank {LATE}", 5, [LATE])
    assert (node.name, node.course.every, node.rows.tolist()) == ("node 3", 4, list(range(24, 32)))
    assert facts.pattern_reasons[1][0].why is Why.CLOCK
    assert doing(facts.pattern_reasons[1]).startswith("computing at 1,31")


def test_rows_are_sorted_and_a_pixel_of_several_shows_the_worst_of_them(facts: ManyRanksDiagnosis) -> None:
    found = RankMap(facts)
    assert found.measures == (Measure.LATENESS, Measure.WAIT, Measure.COMPUTE, Measure.CLOCK)
    assert found.order(Order.WORST, Measure.LATENESS)[0] == LATE
    assert found.order(Order.RANK, Measure.LATENESS).tolist() == list(range(256))
    alike = found.order(Order.SIMILARITY, Measure.LATENESS).tolist()
    places = sorted(alike.index(row) for row in range(24, 32))
    assert places[-1] - places[0] == 7
    shade = found.shades(Measure.LATENESS)
    few = worst_of(shade, 16, STEPS)
    assert few.shape == (16, STEPS)
    assert few[LATE // 16].tolist() == shade[LATE // 16 * 16 : LATE // 16 * 16 + 16].max(axis=0).tolist()
    assert found.shades(Measure.CLOCK)[LATE, -1] > 0.97  # the lowest clock is the brightest


def test_a_cell_has_its_colour_and_callouts_cover_neither_each_other_nor_what_they_tell_of(
    facts: ManyRanksDiagnosis, qtbot: QtBot
) -> None:
    plot, rows = QRectF(0, 0, 400, 300), np.arange(2)
    boxes = [QRectF(0, 40, 400, 6), QRectF(200, 60, 200, 6), QRectF(0, 150, 20, 6), None]
    callouts = [Callout(str(number), "", rows, rows) for number in range(4)]
    found = placed(callouts, boxes, plot, [150.0] * 4)
    places = [place for _, _, place in found]
    assert [callout.title for callout, _, _ in found] == ["0", "1", "2"]
    covered = [*places, *(box for box in boxes if box is not None)]
    assert not any(one.intersects(other) for one in places for other in covered if one is not other)

    heat = RankHeat()
    qtbot.addWidget(heat)
    heat.resize(900, 600)
    heat.show_map(RankMap(facts))
    picture: QImage = heat.grab().toImage()
    colors = shades(theme.current())
    box = heat.box(np.array([LATE]), np.array([STEPS - 1]))
    sound = heat.box(np.array([60]), np.array([2]))
    assert box is not None
    assert sound is not None
    middle, quiet = box.center().toPoint(), sound.center().toPoint()
    assert picture.pixelColor(middle * picture.devicePixelRatioF()) in colors[250:]
    assert picture.pixelColor(quiet * picture.devicePixelRatioF()) not in colors[50:]


def test_a_run_of_many_ranks_opens_as_a_map_with_the_slowest_and_a_typical_rank_below(
    empty_window: MainWindow, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "processes", lambda: 1)
    Run(ranks=18, steps=3, operators=2, tensor=3, stages=1, kernel_ns=150_000, straggler=7, since=1).write(
        tmp_path
    )
    window = empty_window
    window.open([tmp_path])
    wait_until_ready(qtbot, window)
    assert window.ranks.map is not None
    document, heat = window.document, window.ranks.map.heat

    def shown() -> list[int | None]:
        trace = document.trace
        return sorted({rank.rank for rank in trace.ranks}) if trace is not None else []

    assert document.many is not None
    typical = document.many.facts.typical
    assert window.ranks.map.isVisible()
    assert window.verdict.sentence.text().startswith("17 of 18 ranks wait ")
    assert shown() == sorted([7, typical])
    assert document.diagnosis is not None
    late = next(each for each in document.diagnosis.findings if each.rule == "late-rank")
    assert document.trace is not None
    assert late.device is not None
    assert document.trace.devices[late.device].rank == 7

    def click_cell(row: int, step: int) -> None:
        box = heat.box(np.array([row]), np.array([step]))
        assert box is not None
        click(heat, box.center().toPoint())
        window.activateWindow()  # the platform of tests gives it up for what tells of the cell
        qtbot.waitUntil(window.isActiveWindow)

    click_cell(0, 0)
    for key in ("Down", "Right", "Right"):
        press(window, key)
    assert heat.cell is not None
    assert (heat.cell.row, heat.cell.step) == (1, 2)
    assert "rank 1" in window.ranks.map.selected.text()
    view = window.timeline.state.target
    press(window, "w")  # what the map does not claim goes to the timelines
    assert window.timeline.state.target != view
    press(window, "Return")
    qtbot.waitUntil(lambda: len(shown()) == 3)
    assert shown() == sorted([1, 7, typical])
    wait_until_ready(qtbot, window)
    click_cell(4, 1)
    press(window, "P")
    qtbot.waitUntil(lambda: len(shown()) == 4)
    assert document.many is not None
    assert document.many.compared[-1] == 4
    wait_until_ready(qtbot, window)

    click(heat, QPoint(100, round(heat.plot.center().y())))  # a click shows only the ranks of its group
    assert len(heat._sorted) == 6
    press(window, "Esc")
    assert len(heat._sorted) == 18
    while heat.cell is not None:
        press(window, "Esc")
    press(window, "Esc")
    assert window.timeline.hasFocus()
    window.ranks.map.measures.button(1).click()
    assert window.ranks.map.measure is Measure.WAIT
    assert window.ranks.panel.costly is not None
    window.ranks.panel.costly.chosen.emit(7)
    assert heat.cell is not None
    assert heat.cell.row == 7
    document.clear()
    assert not window.ranks.map.isVisible()
    assert window.side.indexOf(window.ranks.panel) < 0


def test_one_late_rank_of_thousands_stands_out_from_what_all_others_do() -> None:
    run = Run(ranks=1024, steps=STEPS, operators=4, stages=4, straggler=700, since=4, slow_compute=1.5)
    found = RankMap(diagnosis_of_many(joined(summaries_of(run)))[0])
    shade = found.shades(Measure.LATENESS)
    assert shade[700, -1] > 0.9
    assert np.median(shade[:, -1]) < 0.1


@pytest.mark.parametrize(("wide", "written"), [(54, True), (53, False)])
def test_values_are_written_in_cells_where_there_is_room(wide: int, written: bool, qapp: object) -> None:
    image = QImage(2 * wide, 60, QImage.Format.Format_RGB32)
    image.fill(QColor("#808080"))
    painter = QPainter(image)
    shade = np.array([[0.0, 0.5], [1.0, np.nan]])
    write_values(painter, QRectF(0, 0, 2 * wide, 60), shade, shade, lambda value: f"{value:.1f} ms")
    painter.end()
    left = [image.pixel(x, y) for x in range(wide) for y in range(60)]
    unknown = [image.pixel(x, y) for x in range(wide, 2 * wide) for y in range(30, 60)]
    assert (len(set(left)) > 1) is written
    assert len(set(unknown)) == 1


@pytest.mark.parametrize(("width", "stays"), [(MIN_WIDTH_FOR_TEXT, True), (MIN_WIDTH_FOR_TEXT - 1, False)])
def test_the_mark_of_a_cell_covers_no_figure(qapp: object, width: int, stays: bool) -> None:
    painted = QImage(200, 100, QImage.Format.Format_RGB32)
    painted.fill(QColor("magenta"))
    painter = QPainter(painted)
    mark_cell(painter, QRectF(0, 0, 200, 100), QRectF(60, 40, width, 20))
    painter.end()
    middle = 60 + width // 2
    assert (painted.pixelColor(middle, 50) == QColor("magenta")) is stays
    along = [painted.pixelColor(middle, y) for y in range(38)]
    assert all(each == QColor("magenta") for each in along) is stays
