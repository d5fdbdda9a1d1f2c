"""The losses of a program, step by step: two runs as it is, and one with each change that won."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model.late.dataclass import dataclass
from parsers.model.units import three_digits
from rules.trials.trial import Kind, Trials
from viewer.look import theme

LEFT, RIGHT, TOP, FOOT = 52, 14, 10, 22
LEGEND_SHARE, LINE_HEIGHT = 0.42, 16
MAX_NAMED = 6
MIN_WIDTH = 260  # less has no room for the numbers of two steps
GREEN = 2  # of the series of colours: it would be taken for the whole
AS_IT_IS = "unchanged (two runs)"


@dataclass(frozen=True, slots=True)
class Curve:
    """``name`` is empty for a run without a change; None stands for a loss that is no finite number."""

    name: str
    losses: tuple[float | None, ...]
    whole: bool = False


def curves_of(trials: Trials) -> list[Curve]:
    """What is drawn: the whole last, so that it lies on top."""
    kinds = {each.candidate.switch: each.candidate for each in trials.trials}
    found = []
    for switch, losses in zip(trials.losses_of, trials.losses, strict=True):
        candidate = kinds.get(switch)
        name = candidate.title if candidate is not None else ""
        found.append(Curve(name, losses, candidate is not None and candidate.kind is Kind.TOGETHER))
    return [each for each in found if len(each.losses) > 1]


class LossCurves(QWidget):
    """Losses over steps; the legend stands beside the curves, never on them."""

    def __init__(self) -> None:
        super().__init__()
        self.curves: list[Curve] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(MIN_WIDTH, 110)
        self.setAccessibleName("Loss of the program, step by step")

    def sizeHint(self) -> QSize:
        return QSize(420, 150)

    def show_curves(self, curves: Sequence[Curve]) -> None:
        self.curves = list(curves)
        names = dict.fromkeys(each.name or AS_IT_IS for each in curves)
        self.setAccessibleDescription("; ".join(names))
        self.update()

    def color_of(self, curve: Curve) -> QColor:
        """Green is the whole, as in the rows; the others are told apart by the legend."""
        colors = theme.current()
        if not curve.name:
            return colors.grey
        changed = [each.name for each in self.curves if each.name and not each.whole]
        if curve.whole:
            return colors.good
        number = changed.index(curve.name)
        return colors.named(number + (number >= GREEN))

    def _room(self) -> QRectF:
        right = self.width() * (1 - LEGEND_SHARE)
        return QRectF(LEFT, TOP, max(right - LEFT - RIGHT, 1), max(self.height() - TOP - FOOT, 1))

    def paintEvent(self, _: QPaintEvent) -> None:
        values = [loss for each in self.curves for loss in each.losses if loss is not None]
        if not values:
            return
        painter, colors, room = QPainter(self), theme.current(), self._room()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(theme.font(theme.SECONDARY_PX, tabular=True))
        low, high = min(values), max(values)
        steps = max(len(each.losses) for each in self.curves)
        for value in (low, high):
            y = self._place(room, 0, value, steps, low, high).y()
            painter.setPen(QPen(colors.line, 1))
            painter.drawLine(QPointF(room.left(), y), QPointF(room.right(), y))
            painter.setPen(colors.text_secondary)
            place = QRectF(0, y - 8, LEFT - 8, 16)
            painter.drawText(
                place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, three_digits(value)
            )
        for step, flag in ((0, Qt.AlignmentFlag.AlignLeft), (steps - 1, Qt.AlignmentFlag.AlignRight)):
            place = QRectF(room.left(), self.height() - FOOT + 4, room.width(), 16)
            painter.drawText(place, flag, f"step {step + 1}")
        for curve in self.curves:
            pen = QPen(self.color_of(curve), 2.0 if curve.name else 3.0)
            painter.setPen(pen)
            points = QPolygonF()
            for step, loss in enumerate(curve.losses):
                if loss is not None:
                    points.append(self._place(room, step, loss, steps, low, high))
            painter.drawPolyline(points)
        self._legend(painter, room.right() + RIGHT)

    @staticmethod
    def _place(room: QRectF, step: int, loss: float, steps: int, low: float, high: float) -> QPointF:
        share = (loss - low) / (high - low) if high > low else 0.5
        return QPointF(
            room.left() + room.width() * step / max(steps - 1, 1), room.bottom() - room.height() * share
        )

    def _legend(self, painter: QPainter, left: float) -> None:
        named = {each.name or AS_IT_IS: each for each in self.curves}
        chosen = list(named.items())[:MAX_NAMED]
        room = self.width() - left - 18
        for number, (name, curve) in enumerate(chosen):
            top = TOP + number * LINE_HEIGHT
            painter.fillRect(QRectF(left, top + 6, 12, 3), self.color_of(curve))
            painter.setPen(theme.current().text_secondary)
            shown = painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, int(room))
            painter.drawText(QRectF(left + 18, top, room, LINE_HEIGHT), Qt.AlignmentFlag.AlignVCenter, shown)
