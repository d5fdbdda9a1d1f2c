"""What became of each finding: gone, new, more, less, as before; a click shows where it was and is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QScrollArea, QWidget

from rules.comparison.findings import Change, FindingChange
from viewer.appearance import theme
from viewer.appearance.tab_order import LIST_ITEM
from viewer.appearance.widgets import Label, fill, horizontal, vertical

_SHOWN = {
    Change.GONE: "gone",
    Change.NEARLY_GONE: "nearly gone",
    Change.LESS: "less",
    Change.SAME: "stays",
    Change.MORE: "more",
    Change.NEW: "new",
}
_BETTER = frozenset({Change.GONE, Change.NEARLY_GONE, Change.LESS})
_WORSE = frozenset({Change.MORE, Change.NEW})
_ARROW = {True: "▼ ", False: "▲ "}


def tone(change: Change) -> QColor:
    """Green for what got better, red for what got worse."""
    colors = theme.current()
    return colors.good if change in _BETTER else colors.error if change in _WORSE else colors.text_secondary


def told(change: Change) -> str:
    """Its word with an arrow, where it is better or worse."""
    arrow = _ARROW[change in _BETTER] if change is not Change.SAME else ""
    return arrow + _SHOWN[change]


class Badge(QWidget):
    """A word in a rounded frame of its colour."""

    def __init__(self, text: str, color: Callable[[], QColor]) -> None:
        super().__init__()
        self.text, self._color = text, color
        self.setFont(theme.font(12, QFont.Weight.DemiBold))
        self.setFixedSize(self.fontMetrics().horizontalAdvance(text) + 22, 21)
        self.setAccessibleName(text)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        color = self._color()
        painter.setPen(color)
        painter.setBrush(theme.mixed(color, theme.current().panel, 0.14))
        painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), 10, 10)
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.text)


class FindingRow(QWidget):
    """One finding."""

    accessible_role = LIST_ITEM

    chosen = Signal(object)  # FindingChange

    def __init__(self, change: FindingChange, cost: str) -> None:
        super().__init__()
        self.change = change
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(f"{_SHOWN[change.change]}: {change.finding.title}")
        head = horizontal(spacing=8)
        title = Label(
            change.finding.title_beside_its_cost, weight=QFont.Weight.DemiBold, pixels=12, wrap=True
        )
        fill(
            head,
            (title, 1),
            (Badge(told(change.change), partial(tone, change.change)), 0, Qt.AlignmentFlag.AlignTop),
        )
        fill(vertical(self, (14, 7, 10, 7), 2), head, Label(cost, "secondary", pixels=12, wrap=True))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.chosen.emit(self.change)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.chosen.emit(self.change)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(colors.accent if self.hasFocus() else colors.line)
        painter.setBrush(colors.window)
        painter.drawRoundedRect(self.rect().adjusted(4, 2, -5, -3), 5, 5)
        painter.fillRect(4, 6, 3, self.height() - 13, tone(self.change.change))


class FindingList(QScrollArea):
    """All of them, and at the end what to be careful with; ``chosen`` gets the FindingChange."""

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Findings before and after")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.rows: list[FindingRow] = []

    def show_findings(
        self, findings: Sequence[FindingChange], costs: Sequence[str], cautions: Sequence[str]
    ) -> None:
        """Show these; ``costs`` say what each costs before and after."""
        inside = QWidget()
        layout = vertical(inside, (4, 2, 4, 8), 2)
        self.rows = [FindingRow(each, cost) for each, cost in zip(findings, costs, strict=True)]
        for row in self.rows:
            row.chosen.connect(self.chosen)
            layout.addWidget(row)
        if not self.rows:
            layout.addWidget(
                Label("No significant findings before or after.", "secondary", pixels=12, wrap=True)
            )
        for number, caution in enumerate(cautions):
            line = horizontal(margins=(6, 4, 6, 0), spacing=8)
            name = Label("Careful" if not number else "", weight=QFont.Weight.DemiBold, pixels=12)
            name.setFixedWidth(52)
            fill(
                line,
                (name, 0, Qt.AlignmentFlag.AlignTop),
                (Label(caution, "secondary", pixels=12, wrap=True), 1),
            )
            layout.addLayout(line)
        layout.addStretch(1)
        self.setWidget(inside)
