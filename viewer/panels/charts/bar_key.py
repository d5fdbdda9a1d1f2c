"""The key of budget bars: what the parts are that are too narrow for their names."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model.units import percent
from viewer.appearance import theme
from viewer.panels.charts.budget_bar import BudgetBar, Part, PartButton

HEIGHT, SWATCH, GAP = 14, 9, 16
LEAST = 0.01  # of a bar: less is hardly seen in it


class BarKey(QWidget):
    """A line below the bars: the colour and the name of each part that has none in its bar; gone where all have."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: Sequence[BudgetBar] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Names of narrow parts")

    def show_bars(self, bars: Sequence[BudgetBar]) -> None:
        self._bars = bars
        for bar in bars:
            bar.laid_out.connect(self._fit, Qt.ConnectionType.QueuedConnection)
        if all(bar.isVisible() for bar in bars):  # else they are laid out before they are seen
            self._fit()

    def _fit(self) -> None:
        self.setVisible(bool(self.entries()))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(60, HEIGHT)

    def entries(self) -> list[tuple[Part, str]]:
        """Each part without a name in its bar, the largest first; of one bar with its share."""
        nameless: dict[str, PartButton] = {}
        for bar in self._bars:
            for button in bar.buttons:
                known = nameless.get(button.part.key, button)
                if button.share >= LEAST and not button.name and button.share >= known.share:
                    nameless[button.part.key] = button
        alone = len(self._bars) == 1
        return [
            (each.part, f"{each.part.label} {percent(each.share)}" if alone else each.part.label)
            for each in sorted(nameless.values(), key=lambda button: -button.share)
        ]

    def shown(self) -> list[tuple[Part, str, int]]:
        """The entries that fit, with where each begins, in pixels."""
        found = []
        metrics = QFontMetrics(theme.font(theme.SECONDARY_PX))
        left = self.mapFromGlobal(self._bars[0].mapToGlobal(self._bars[0].rect().topLeft())).x()
        for part, text in self.entries():
            width = SWATCH + 5 + metrics.horizontalAdvance(text)
            if left + width > self.width():
                break
            found.append((part, text, left))
            left += width + GAP
        return found

    def paintEvent(self, _: QPaintEvent) -> None:
        if not self._bars:
            return
        painter, colors = QPainter(self), theme.current()
        painter.setFont(theme.font(theme.SECONDARY_PX))
        for part, text, left in self.shown():
            color = part.color(colors)
            box = QRect(left, (self.height() - SWATCH) // 2, SWATCH, SWATCH)
            painter.fillRect(box, theme.mixed(color, colors.panel, 0.35) if part.hatched else color)
            if part.hatched:
                painter.fillRect(box, QBrush(QColor(color), Qt.BrushStyle.BDiagPattern))
            painter.setPen(colors.text_secondary)
            rest = QRect(left + SWATCH + 5, 0, self.width(), self.height())
            painter.drawText(rest, Qt.AlignmentFlag.AlignVCenter, text)
