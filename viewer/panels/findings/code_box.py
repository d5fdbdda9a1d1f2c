"""A snippet of code as it was written: comments move above lines that are too long, and what still is scrolls."""

from __future__ import annotations

import textwrap

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QFontMetricsF, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QSizePolicy

from parsers.model.late.regex import regex
from viewer.appearance import theme
from viewer.appearance.boxes import NO_MARGINS, fill, vertical
from viewer.appearance.labels import Label

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
        self.copy_button = QPushButton("Copy the code")
        self.copy_button.setProperty("link", True)
        self.copy_button.setFont(theme.font(12))
        self.copy_button.setStyleSheet("padding: 4px 7px;")
        self.copy_button.setCursor(Qt.CursorShape.PointingHandCursor)
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
