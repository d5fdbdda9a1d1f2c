"""The strip above the timeline while fixes are ticked: what they give together, and the step now and then as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model.units import duration, percent
from viewer.appearance import theme
from viewer.appearance.palette import HATCHED
from viewer.appearance.widgets import ElidedLabel, Label, vertical
from viewer.documents.what_if import WhatIf
from viewer.panels.charts.budget_bar import name_that_fits

if TYPE_CHECKING:
    from viewer.statistics.what_if import Prediction

NAMES_WIDTH, BAR_HEIGHT, GAP, WHISKER = 150, 18, 3, 10


class StepBars(QWidget):
    """A step now and with the fixes on one scale; the whisker is the band of the latter."""

    def __init__(self, model: WhatIf) -> None:
        super().__init__()
        self._model = model
        self._prediction: Prediction | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_prediction(self, prediction: Prediction | None) -> None:
        self._prediction = prediction
        if prediction is not None:
            outcome = prediction.outcome
            self.setAccessibleName(
                f"now {duration(outcome.before_ns)}, predicted {duration(outcome.after_ns)}"
            )
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(400, 2 * BAR_HEIGHT + GAP + WHISKER)

    def parts(self) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, int]]]:
        """(key, label, ns) of a step now, with the recorder where that is shown, and as predicted without it."""
        from viewer.statistics.what_if import bar

        plan, prediction, document = self._model.plan, self._prediction, self._model.document
        if plan is None or prediction is None or not prediction.steps:
            return [], []
        now = bar(plan, prediction, after=False)
        times = document.diagnosis.step_times if document.diagnosis is not None else {}
        time = times.get(prediction.steps[0].device)
        if document.with_recorder and time is not None:
            now.append(("recorder", "profiler", round(time.recorder_ns)))
        return now, bar(plan, prediction, after=True)

    def paintEvent(self, _: QPaintEvent) -> None:
        prediction = self._prediction
        if prediction is None or not prediction.steps:
            return
        painter, colors, outcome = QPainter(self), theme.current(), prediction.outcome
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        room = self.width() - NAMES_WIDTH
        now, then = self.parts()
        recorded = sum(ns for _, _, ns in now)
        longest = max(recorded, outcome.most_ns, 1.0)
        scale = room / longest
        rows = (("now", float(recorded), now, False), ("predicted", outcome.after_ns, then, True))
        for row, (name, ns, parts, after) in enumerate(rows):
            top = row * (BAR_HEIGHT + GAP)
            painter.setFont(theme.font(12))
            painter.setPen(colors.text_secondary)
            left = QRectF(0, top, NAMES_WIDTH - 10, BAR_HEIGHT)
            painter.drawText(left, Qt.AlignmentFlag.AlignVCenter, name)
            painter.setFont(theme.font(12, QFont.Weight.DemiBold, tabular=True))
            painter.setPen(colors.text)
            painter.drawText(left, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, duration(ns))
            self._bar(painter, parts, NAMES_WIDTH, top, ns * scale)
            if after:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(colors.good, 1.2, Qt.PenStyle.DashLine))
                painter.drawRect(QRectF(NAMES_WIDTH, top, ns * scale, BAR_HEIGHT))
        low, high = (NAMES_WIDTH + each * scale for each in (outcome.least_ns, outcome.most_ns))
        y = 2 * BAR_HEIGHT + GAP + WHISKER / 2
        painter.setPen(QPen(colors.text, 1.4))
        painter.drawLine(QPointF(low, y), QPointF(high, y))
        for x in (low, high):
            painter.drawLine(QPointF(x, y - 4), QPointF(x, y + 4))
        painter.setBrush(colors.text)
        painter.drawEllipse(QPointF(NAMES_WIDTH + outcome.after_ns * scale, y), 3.5, 3.5)

    def _bar(
        self, painter: QPainter, parts: list[tuple[str, str, int]], left: float, top: float, width: float
    ) -> None:
        colors, whole = theme.current(), max(sum(ns for _, _, ns in parts), 1)
        painter.setFont(theme.font(12, QFont.Weight.DemiBold))
        metrics = QFontMetrics(painter.font())
        for key, label, ns in parts:
            box = QRectF(left, top, width * ns / whole, BAR_HEIGHT)
            fill = colors.part(key)
            ground = theme.mixed(fill, colors.panel, 0.35) if key in HATCHED else fill
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ground)
            painter.drawRect(box)
            if key in HATCHED:
                painter.setBrush(QBrush(QColor(fill), Qt.BrushStyle.BDiagPattern))
                painter.drawRect(box)
            if text := name_that_fits(key, label, percent(ns / whole), metrics, box.width() - 12):
                painter.setBrush(ground)
                painter.drawRect(
                    QRectF(box.left() + 4, top + 2, metrics.horizontalAdvance(text) + 6, BAR_HEIGHT - 4)
                )
                painter.setPen(theme.text_on(ground))
                painter.drawText(box.adjusted(7, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, text)
            left += box.width()


class PredictionStrip(QWidget):
    """Hidden while nothing is ticked."""

    def __init__(self, model: WhatIf, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("prediction")
        self.setAutoFillBackground(True)
        self.sentence = Label("", pixels=theme.VERDICT_PX + 1, weight=QFont.Weight.DemiBold)
        self.band = ElidedLabel("", "secondary")
        self.bars = StepBars(model)
        layout = vertical(self, (14, 7, 14, 3), 2)
        for each in (self.sentence, self.band, self.bars):
            layout.addWidget(each)
        layout.addStretch(1)  # where it takes the room of several ranks' bars
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        model.predicted.connect(self._show)
        model.document.recorder_changed.connect(lambda _: self.bars.update())
        self.hide()

    def _show(self, prediction: Prediction | None) -> None:
        from rules.fixes.simulation import Part
        from rules.verdict.promises import factor, together

        self.setVisible(prediction is not None)
        if prediction is None:
            return
        outcome, count = prediction.outcome, len(prediction.ids)
        ticked = "the fix" if count == 1 else f"the {count} fixes"
        said = together(outcome)
        self.sentence.setText(f"{said[:1].upper()}{said[1:]} with {ticked} you ticked")
        low, high = (outcome.before_ns / each for each in (outcome.most_ns, outcome.least_ns))
        band = f"{factor(low)} to {factor(high)}. " if outcome.is_credible else ""
        now, then = duration(outcome.before_ns), duration(outcome.after_ns)
        self.bars.show_prediction(prediction)
        least = sum(ns for key, _, ns in self.bars.parts()[1] if key == Part.COMPUTE.value)
        self.band.setText(
            f"{band}Without the profiler a step takes {then} instead of {now}; "
            f"{prediction.whose or 'the GPU'} computes for {duration(least)} of it."
        )
