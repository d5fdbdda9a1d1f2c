"""What the card of a finding is made of: its share of a step, its code, and the memory that is held after each step."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontDatabase,
    QFontMetricsF,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QSizePolicy, QWidget

from parsers.model.late import regex
from parsers.model.units import percent, size
from rules import Finding
from rules.causes import OTHER_BASIS
from rules.wording.words import Part
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache
from viewer.appearance.widgets import NO_MARGINS, Label, fill, vertical

FONT_PX = 12
MARGIN = 8
MIN_COLUMNS = 24
_COMMENTED = regex(r"(?P<indent> *+)(?P<code>(?:[^#\s][^#]* )?)# ++(?P<comment>.+)")


def fitted_code(text: str, columns: int) -> str:
    """``text`` with comments in lines of their own, above the code they explain, where both do not fit together."""
    lines: list[str] = []
    for line in text.strip("\n").splitlines():
        found = _COMMENTED.fullmatch(line) if len(line) > columns else None
        if found is None or _is_inside_text(found["code"]):
            lines.append(line)
            continue
        start = f"{found['indent']}# "
        width = max(columns, len(start) + MIN_COLUMNS // 2)
        lines += textwrap.wrap(
            found["comment"], width, initial_indent=start, subsequent_indent=start, break_long_words=False
        )
        if found["code"]:
            lines.append(f"{found['indent']}{found['code'].rstrip()}")
    return "\n".join(lines)


def link_button(text: str, tip: str = "") -> QPushButton:
    """A small button of a card, which looks like a link."""
    button = QPushButton(text)
    button.setProperty("link", True)
    button.setFont(theme.font(12))
    button.setStyleSheet("padding: 4px 7px;")
    button.setToolTip(tip)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    return button


def _is_inside_text(before: str) -> bool:
    """Whether what comes after ``before`` belongs to a string."""
    return any(before.count(quote) % 2 for quote in ("'", '"'))


class CodeBox(QFrame):
    """Shows code in as many columns as there are; copies it as it was written."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.code = text.strip("\n")
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(FONT_PX)
        self._column = QFontMetricsF(font).horizontalAdvance("m")
        self.label = Label(self.code, selectable=True)
        self.label.setFont(font)
        self.label.setMargin(MARGIN)
        self.label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self._scroll = QScrollArea()
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setWidgetResizable(True)
        self._scroll.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self.label)
        colors = theme.current()
        self.label.setStyleSheet(f"background: transparent; color: {colors.text.name()};")
        self._scroll.setStyleSheet(
            f"QScrollArea {{ background: {colors.strip.name()}; border-radius: 4px; }}"
        )
        self.copy_button = link_button("Copy the code")
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.code))
        fill(vertical(self, NO_MARGINS, 6), self._scroll, (self.copy_button, 0, Qt.AlignmentFlag.AlignLeft))
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        room = self.width() - 2 * MARGIN
        columns = max(int(room / self._column), MIN_COLUMNS)
        self.label.setText(fitted_code(self.code, columns))
        high = self.label.sizeHint().height()
        if self.label.sizeHint().width() > self.width():
            high += self._scroll.horizontalScrollBar().sizeHint().height()
        self._scroll.setFixedHeight(high)


MIN_WIDTH = 32  # pixels: of a shorter one nobody could tell a part


def share_in_words(finding: Finding) -> str:
    """ "57 % of every step", where the title leaves it out; and how much it is with what it delays, if that is more."""
    amount = finding.headline.amount
    return str(amount) if isinstance(amount, Part) and amount.is_of_a_step else ""


def _shares(finding: Finding) -> tuple[float, float]:
    """The part of a step that the words beside the bar tell, and that with what it delays."""
    amount = finding.headline.amount
    if isinstance(amount, Part):
        return amount.share, amount.with_delays
    return finding.share, finding.cost if finding.cost >= finding.share + OTHER_BASIS else 0.0


class ShareBar(QWidget):
    """The part of a step that is the finding's own time; paler, what it delays."""

    def __init__(self, finding: Finding, color: QColor) -> None:
        super().__init__()
        self._color = color
        self.setFixedHeight(5)
        self.show_finding(finding)

    def show_finding(self, finding: Finding) -> None:
        """The same finding in a step with the recorder, or without."""
        own, with_delays = _shares(finding)
        self.share = min(max(own, 0.0), 1.0)
        self.with_delays = min(max(with_delays, self.share), 1.0)
        self.setAccessibleName(f"{percent(self.with_delays)} of the time")
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:
        if self.width() < MIN_WIDTH:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        colors = theme.current()
        pale = theme.mixed(self._color, colors.panel, 0.5)
        for share, color in ((1.0, colors.strip), (self.with_delays, pale), (self.share, self._color)):
            if share > 0:
                painter.setBrush(color)
                painter.drawRoundedRect(QRectF(0, 0.5, max(self.width() * share, 4.0), 4), 2, 2)


HEIGHT, TEXT = 84, 15
MAX_STEPS = 12  # the last steps; more are too narrow to read
_GAP = 6


class Stairs(QWidget):
    """Bytes after each step; of many steps the first and the last ones."""

    def __init__(self, after_steps: Sequence[int], color: QColor) -> None:
        super().__init__()
        self._levels, self._color = tuple(after_steps), color
        self._first = max(len(self._levels) - MAX_STEPS, 0)
        self._text = TextCache(theme.font(theme.SECONDARY_PX, tabular=True))
        self.setFixedHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(
            "After the steps: " + ", ".join(size(each) for each in self._levels[self._first :])
        )

    def sizeHint(self) -> QSize:
        return QSize(300, HEIGHT)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        colors, shown = theme.current(), self._levels[self._first :]
        most, base = max(*shown, 1), min(shown)
        width = self.width() / len(shown)
        room = HEIGHT - 2 * TEXT - 2
        painter.setPen(Qt.PenStyle.NoPen)
        for index, level in enumerate(shown):
            left, high = index * width, room * level / most
            low = room * min(base, level) / most
            painter.fillRect(QRectF(left, TEXT + room - low, width - _GAP, low), colors.line_strong)
            painter.fillRect(QRectF(left, TEXT + room - high, width - _GAP, high - low), self._color)
        painter.setFont(self._text.font)
        painter.setPen(colors.text_secondary)
        for index, level in enumerate(shown):
            top = TEXT + room - room * level / most - TEXT
            self._text.draw(painter, size(level), index * width, round(top), width)
            step = f"step {self._first + index + 1}"
            self._text.draw(painter, step, index * width, HEIGHT - TEXT, width)
