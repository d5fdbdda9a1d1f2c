"""Frame times of the map of many ranks while it is walked, zoomed and sorted."""

from __future__ import annotations

import time

import numpy as np
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QApplication

from rules.summaries import page
from rules.summaries.facts import ManyRanksDiagnosis
from viewer.app import application
from viewer.panels.ranks.heat import RankHeat
from viewer.panels.ranks.painting import Callout
from viewer.statistics.rank_map import Measure, Order, RankMap

WIDTH, HEIGHT = 1400, 600
FRAMES = 120
NOTCH = 120


def frames(facts: ManyRanksDiagnosis) -> dict[str, tuple[float, float]]:
    """Median and p99 in ms of the thread's time for a frame, by what is done."""
    application()
    heat = RankHeat()
    heat.resize(WIDTH, HEIGHT)
    heat.show_map(
        RankMap(facts),
        [
            Callout(title, why, pattern.rows, pattern.course.steps)
            for (title, why), pattern in zip(page.patterns(facts), facts.patterns, strict=True)
        ],
    )
    picture = QImage(heat.size(), QImage.Format.Format_ARGB32_Premultiplied)
    middle = heat.plot.center()
    orders = [(measure, order) for measure in (Measure.WAIT, Measure.LATENESS) for order in Order]

    def walk(number: int) -> None:
        _key(heat, Qt.Key.Key_Down if number % 2 else Qt.Key.Key_Right)

    def zoom(number: int) -> None:
        _wheel(heat, middle, NOTCH if number % 40 < 20 else -NOTCH)

    def sort(number: int) -> None:
        heat.show_measure(*orders[number % len(orders)])

    sort(0)
    found = {}
    for what, act in (("walking", walk), ("zooming", zoom), ("another order", sort)):
        taken = []
        for number in range(FRAMES):
            begun = time.thread_time()
            act(number)
            heat.render(picture)
            taken.append((time.thread_time() - begun) * 1000)
        found[what] = (float(np.median(taken)), float(np.percentile(taken, 99)))
    return found


def _key(heat: RankHeat, key: Qt.Key) -> None:
    QApplication.sendEvent(heat, QKeyEvent(QKeyEvent.Type.KeyPress, key, Qt.KeyboardModifier.NoModifier))


def _wheel(heat: RankHeat, at: QPointF, turned: int) -> None:
    event = QWheelEvent(
        at, QPointF(heat.mapToGlobal(at.toPoint())), QPoint(), QPoint(0, turned), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(heat, event)
