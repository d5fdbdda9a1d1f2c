"""The bridge from the step before to the one after: a waterfall whose small parts are enlarged, whose bars select."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QFont, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QButtonGroup, QToolButton, QToolTip, QWidget

from parsers.model.late import dataclass
from parsers.model.units import duration, percent
from rules.comparison.bridge import BUDGET, MIN_SHOWN, REGIONS, Bridge, BridgePart
from viewer.appearance import theme
from viewer.appearance.painted_chart import PaintedChart
from viewer.appearance.widgets import SPRING, ElidedLabel, fill, horizontal, tooltip, vertical
from viewer.comparison.ribbons import region_color

ROW = 27
MAX_PARTS = 9
LABEL_SHARE, MAX_LABEL = 0.4, 180
VALUE = 88
MIN_TOLD = 0.5  # ns
ENLARGED_FROM = 3.0  # times: less is not worth another scale
ZONE_GAP = 34
BAR = 15
SHORT = {BUDGET: "budget", REGIONS: "regions"}
UNEXPLAINED = "not explained"
OTHERS = "all other parts"


@dataclass(frozen=True, slots=True)
class Row:
    """One line: from ``low`` to ``high`` ns on the axis; ``part`` is None for before, after and what is unexplained."""

    label: str
    value: str
    low: float
    high: float
    change: float | None
    part: BridgePart | None


def rows_of(bridge: Bridge) -> list[Row]:
    """Before, the largest parts, all others together, what is not explained, after."""
    least = MIN_SHOWN * max(bridge.before, bridge.after)
    parts = [each for each in bridge.parts[:MAX_PARTS] if abs(each.change) >= least]
    if rest := bridge.parts[MAX_PARTS:]:
        parts.append(
            BridgePart("other", OTHERS, sum(each.before for each in rest), sum(each.after for each in rest))
        )
    rows = [Row("before", duration(bridge.before), 0.0, bridge.before, None, None)]
    at = bridge.before
    changes = [(part.label, part.change, part) for part in parts]
    for label, change, part in [*changes, (UNEXPLAINED, bridge.unexplained, None)]:
        low, high = sorted((at, at + change))
        rows.append(Row(label, _signed(change), low, high, change, part))
        at += change
    return [*rows, Row("after", duration(bridge.after), 0.0, bridge.after, None, None)]


def _signed(ns: float) -> str:
    """With an arrow beside the sign: less is better."""
    if abs(ns) < MIN_TOLD:
        return "0"
    return f"{'▼ −' if ns < 0 else '▲ +'}{duration(abs(ns))}"


class Waterfall(PaintedChart):
    """The rows of one bridge; ``chosen`` hands over the part whose bar was clicked or walked to."""

    is_low = True
    chosen = Signal(object)  # BridgePart

    def __init__(self) -> None:
        super().__init__("Where the time went")
        self._bridge: Bridge | None = None
        self.rows: list[Row] = []
        self._selected = -1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def show_bridge(self, bridge: Bridge) -> None:
        self._bridge, self.rows, self._selected = bridge, rows_of(bridge), -1
        self.setAccessibleDescription("; ".join(f"{row.label} {row.value}" for row in self.rows))
        self.setFixedHeight(self.sizeHint().height())
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(340, len(self.rows) * ROW + ZONE_GAP + 8)

    @property
    def _zone(self) -> int:
        """The first row of the enlarged ones; the number of rows where none are."""
        rows = self.rows
        if len(rows) < 5:
            return len(rows)
        whole = max(row.high for row in rows)
        small = rows[2:-1]
        span = max(row.high for row in small) - min(row.low for row in small)
        return 2 if span * ENLARGED_FROM < whole and span > 0 else len(rows)

    def _axes(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(low, high) in ns of the upper rows and of the enlarged ones."""
        whole = 0.0, max((row.high for row in self.rows), default=1.0) or 1.0
        if self._zone == len(self.rows):
            return whole, whole
        small = self.rows[2:-1]
        low, high = min(row.low for row in small), max(row.high for row in small)
        air = (high - low) * 0.12
        return whole, (max(low - air, 0.0), high + air)

    def box(self, index: int) -> QRectF:
        below = ZONE_GAP if index >= self._zone else 0
        return QRectF(0, 4 + index * ROW + below, self.width(), ROW)

    @property
    def _label_width(self) -> float:
        return min(self.width() * LABEL_SHARE, MAX_LABEL)

    def _x(self, ns: float, axis: tuple[float, float]) -> float:
        room = self.width() - self._label_width - VALUE - 12
        return self._label_width + 4 + room * min(max((ns - axis[0]) / (axis[1] - axis[0]), 0.0), 1.0)

    def draw(self, painter: QPainter) -> None:
        colors = theme.current()
        upper, lower = self._axes()
        for index, row in enumerate(self.rows):
            self._row(painter, index, row, lower if index >= self._zone else upper)
        if self._zone < len(self.rows):
            self._funnel(painter, upper, lower)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colors.accent, 1))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _row(self, painter: QPainter, index: int, row: Row, axis: tuple[float, float]) -> None:
        colors, box = theme.current(), self.box(index)
        whole = row.part is None and row.change is None
        if index == self._selected:
            painter.fillRect(box, colors.selection)
        if row.part is not None and self._bridge is not None:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(part_color(self._bridge.title, row.part))
            painter.drawRoundedRect(QRectF(6, box.center().y() - 4, 9, 9), 2, 2)
        painter.setFont(theme.font(12, QFont.Weight.DemiBold if whole else QFont.Weight.Normal))
        painter.setPen(colors.text)
        indent = 6 if whole else 21
        room = self._label_width - indent - 4
        label = painter.fontMetrics().elidedText(row.label, Qt.TextElideMode.ElideRight, round(room))
        left = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(QRectF(indent, box.top(), room, ROW), left, label)
        begin, end = self._x(row.low, axis), self._x(row.high, axis)
        bar = QRectF(begin, box.center().y() - BAR / 2, max(end - begin, 2.0), BAR)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._brush(row, index))
        if row.value == "0":
            bar.setHeight(0)
        painter.drawRoundedRect(bar, 2, 2)
        if row.change is not None and index + 1 < len(self.rows):
            edge = begin if row.change < 0 else end
            painter.setPen(QPen(colors.line_strong, 1))
            following = self.box(index + 1)
            if following.top() - box.bottom() < 1:
                painter.drawLine(QPointF(edge, bar.bottom()), QPointF(edge, following.center().y() - BAR / 2))
        painter.setFont(theme.font(12, QFont.Weight.DemiBold, tabular=True))
        painter.setPen(colors.text if row.change is None else self._ink(row))
        right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(QRectF(self.width() - VALUE - 8, box.top(), VALUE + 2, ROW), right, row.value)

    def _ink(self, row: Row) -> QColor:
        colors = theme.current()
        if row.part is None or not row.change or row.value == "0":
            return colors.text_secondary
        return colors.good if row.change < 0 else colors.error

    def _brush(self, row: Row, index: int) -> QBrush:
        colors = theme.current()
        if row.change is None:
            return QBrush(colors.grey if index == 0 else colors.accent)
        if row.part is None:
            return QBrush(colors.text_secondary, Qt.BrushStyle.BDiagPattern)
        return QBrush(colors.good if row.change < 0 else colors.error)

    def _funnel(self, painter: QPainter, upper: tuple[float, float], lower: tuple[float, float]) -> None:
        """Which part of the upper axis the lower one enlarges."""
        colors = theme.current()
        top, bottom = self.box(self._zone - 1).bottom() + 2, self.box(self._zone).top() - 1
        shape = QPolygonF(
            [
                QPointF(self._x(lower[0], upper), top),
                QPointF(max(self._x(lower[1], upper), self._x(lower[0], upper) + 1), top),
                QPointF(self._x(lower[1], lower), bottom),
                QPointF(self._x(lower[0], lower), bottom),
            ]
        )
        painter.setPen(QPen(colors.line_strong, 1))
        painter.setBrush(theme.mixed(colors.accent, colors.panel, 0.1))
        painter.drawPolygon(shape)
        times = (upper[1] - upper[0]) / max(lower[1] - lower[0], 1e-9)
        painter.setPen(colors.accent)
        painter.setFont(theme.font(theme.SECONDARY_PX))
        where = QRectF(6, top, self._label_width + 40, bottom - top)
        said = f"the rest, {times:.0f} times larger"
        painter.drawText(where, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, said)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            index = self._at(event.pos().y())
            row = self.rows[index] if index >= 0 else None
            if row is not None and row.part is not None and self._bridge is not None:
                change = self._bridge.after - self._bridge.before
                share = f", {percent(row.part.change / change)} of the change" if change else ""
                text = f"{row.label}: {duration(row.part.before)} → {duration(row.part.after)}{share}"
                QToolTip.showText(event.globalPos(), tooltip(text), self)
            return True
        return super().event(event)

    def _at(self, y: float) -> int:
        return next((i for i in range(len(self.rows)) if self.box(i).top() <= y < self.box(i).bottom()), -1)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.choose(self._at(event.position().y()))

    def choose(self, index: int) -> None:
        if 0 <= index < len(self.rows) and self.rows[index].part is not None:
            self._selected = index
            self.update()
            self.chosen.emit(self.rows[index].part)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            down = event.key() == Qt.Key.Key_Down
            places = [index for index, row in enumerate(self.rows) if row.part is not None]
            further = [
                index for index in places if (index > self._selected if down else index < self._selected)
            ]
            if further:
                self.choose(further[0] if down else further[-1])
        else:
            super().keyPressEvent(event)


class BridgePanel(QWidget):
    """The heading, the choice of parts, and the waterfall; ``chosen`` gets (title of the bridge, part)."""

    chosen = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self._bridges: dict[str, Bridge] = {}
        self.heading = ElidedLabel("", pixels=theme.BODY_PX + 1, weight=QFont.Weight.DemiBold)
        self._choice = QButtonGroup(self)
        self._buttons = horizontal(spacing=6)
        self.chart = Waterfall()
        self.chart.chosen.connect(lambda part: self.chosen.emit(self.title, part))
        fill(vertical(self, (12, 10, 10, 8), 8), self.heading, self._buttons, self.chart, SPRING)
        self._choice.idToggled.connect(self._on_choice)

    def show_bridges(self, bridges: Sequence[Bridge], first: str) -> None:
        """Offer these; ``first`` is the title of the one that is shown at once."""
        for button in self._choice.buttons():
            self._choice.removeButton(button)
            button.deleteLater()
        while self._buttons.count():
            self._buttons.takeAt(0)
        self._bridges = {bridge.title: bridge for bridge in bridges}
        for number, title in enumerate(self._bridges):
            button = QToolButton()
            button.setText(SHORT.get(title, title))
            button.setCheckable(True)
            button.setAccessibleName(f"By {title}")
            button.setToolTip(tooltip(f"Where the time went, by {title}"))
            self._choice.addButton(button, number)
            self._buttons.addWidget(button)
        self._buttons.addStretch(1)
        titles = list(self._bridges)
        if titles:
            self._choice.button(titles.index(first) if first in titles else 0).setChecked(True)

    @property
    def title(self) -> str:
        titles = list(self._bridges)
        number = self._choice.checkedId()
        return titles[number] if 0 <= number < len(titles) else ""

    def _on_choice(self, number: int, checked: bool) -> None:
        titles = list(self._bridges)
        if checked and 0 <= number < len(titles):
            bridge = self._bridges[titles[number]]
            self.heading.setText(f"{duration(bridge.before)} → {duration(bridge.after)}: where it went")
            self.chart.show_bridge(bridge)


def part_color(title: str, part: BridgePart) -> QColor:
    """The colour of a part: that of a budget's part, of a region or of a kernel family."""
    colors = theme.current()
    if title == BUDGET:
        return colors.part(part.key)
    if title == REGIONS:
        return region_color(part.key)
    return colors.part(part.key) if part.key in ("dependency", "other") else colors.family(part.key)
