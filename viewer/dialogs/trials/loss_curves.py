"""The losses of a program, step by step: two runs as it is, and one with each change that won."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from parsers.model.late import dataclass
from parsers.model.units import three_digits
from rules.trials.trial import Kind, Trials
from viewer.appearance import theme
from viewer.appearance.painted_chart import PaintedChart

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


class LossCurves(PaintedChart):
    """Losses over steps; the legend stands beside the curves, never on them."""

    margins = (52, 10, 14, 22)
    wanted = (420, 150)

    def __init__(self) -> None:
        super().__init__("Loss of the program, step by step")
        self.curves: list[Curve] = []
        self.setMinimumSize(MIN_WIDTH, 110)

    def is_empty(self) -> bool:
        return not self._finite()

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

    @property
    def room(self) -> QRectF:
        left_of_legend = super().room
        left_of_legend.setWidth(max(left_of_legend.width() - self.width() * LEGEND_SHARE, 1))
        return left_of_legend

    def _finite(self) -> list[float]:
        return [loss for each in self.curves for loss in each.losses if loss is not None]

    def draw(self, painter: QPainter) -> None:
        values = self._finite()
        low, high = min(values), max(values)
        steps = max(len(each.losses) for each in self.curves)

        def up(loss: float) -> float:
            return (loss - low) / (high - low) if high > low else 0.5

        self.draw_levels(painter, [(up(value), three_digits(value)) for value in (low, high)])
        self.draw_ends(painter, "step 1", f"step {steps}")
        for curve in self.curves:
            painter.setPen(QPen(self.color_of(curve), 2.0 if curve.name else 3.0))
            known = [(step, loss) for step, loss in enumerate(curve.losses) if loss is not None]
            across = max(steps - 1, 1)
            painter.drawPolyline(QPolygonF([self.at(step / across, up(loss)) for step, loss in known]))
        self._legend(painter, self.width() * (1 - LEGEND_SHARE))

    def _legend(self, painter: QPainter, left: float) -> None:
        named = {each.name or AS_IT_IS: each for each in self.curves}
        chosen = list(named.items())[:MAX_NAMED]
        room = self.width() - left - 18
        for number, (name, curve) in enumerate(chosen):
            top = self.room.top() + number * LINE_HEIGHT
            painter.fillRect(QRectF(left, top + 6, 12, 3), self.color_of(curve))
            painter.setPen(theme.current().text_secondary)
            shown = painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, int(room))
            painter.drawText(QRectF(left + 18, top, room, LINE_HEIGHT), Qt.AlignmentFlag.AlignVCenter, shown)
