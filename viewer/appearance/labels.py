"""Labels and tooltips that show text as it is: nothing from a recording is ever read as markup."""

from __future__ import annotations

import html

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from parsers.model.late.regex import regex
from viewer.appearance import theme

MAX_TOOLTIP_LENGTH = 1200
SWATCH = 9


def tooltip(text: str) -> str:
    """``text`` for ``setToolTip``, which would otherwise guess whether it is markup."""
    shown = text if len(text) <= MAX_TOOLTIP_LENGTH else text[:MAX_TOOLTIP_LENGTH] + " ..."
    return f'<p style="white-space:pre-wrap">{html.escape(shown)}</p>' if shown else ""


_VALUE = regex(r"(?<=\d) (?=(?:%|ns|us|ms|s|B|KB|MB|GB|TB|x)(?![A-Za-z]))|(?<=\S) (?=→ \d)|(?<=→) (?=\d)")


def unbroken(text: str) -> str:
    """``text`` in which no end of a line parts values from their unit, or from the arrow to another."""
    return _VALUE.sub("\u00a0", text)


_LONG_WORD = regex(r"\S{23,}")
_BREAK_AFTER = regex(r"(::|[_<,/.\-])(?=\w)")


def breakable(text: str) -> str:
    """``text`` in which very long words, such as kernel names, may be broken at a line's end."""
    return _LONG_WORD.sub(lambda word: _BREAK_AFTER.sub("\\1\u200b", word[0]), text)


SHARE_OF_END = 0.36


def elided_inside(text: str, metrics: QFontMetricsF, room: float) -> str:
    """``text`` without a part after its middle where it is wider than ``room`` pixels: names differ at both ends."""
    if metrics.horizontalAdvance(text) <= room:
        return text
    end = metrics.elidedText(text, Qt.TextElideMode.ElideLeft, room * SHARE_OF_END).lstrip("….")
    begin = text[: len(text) - len(end)] + "…"
    return metrics.elidedText(begin, Qt.TextElideMode.ElideRight, room - metrics.horizontalAdvance(end)) + end


class Label(QLabel):
    """A plain-text label; ``role`` is "", "secondary" or "faint"."""

    def __init__(
        self,
        text: str = "",
        role: str = "",
        *,
        pixels: int | None = None,
        weight: QFont.Weight = QFont.Weight.Normal,
        wrap: bool = False,
        selectable: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        shown = unbroken(text) if wrap else text
        self.setText(breakable(shown) if wrap and not selectable else shown)
        self.setWordWrap(wrap)
        if role:
            self.setProperty("role", role)
        if pixels is not None or weight != QFont.Weight.Normal:
            self.setFont(theme.font(pixels or theme.BODY_PX, weight))
        if selectable:
            self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self.setCursor(Qt.CursorShape.IBeamCursor)
        if wrap:
            policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
            policy.setHeightForWidth(True)
            self.setSizePolicy(policy)

    def set_hint(self, text: str) -> None:
        """What is said of it where the mouse rests; plain text."""
        self.setToolTip(tooltip(text))


class ElidedLabel(QWidget):
    """One line of plain text that ends in an ellipsis where it does not fit, with the whole text as tooltip."""

    def __init__(
        self,
        text: str = "",
        role: str = "",
        *,
        pixels: int = theme.BODY_PX,
        weight: QFont.Weight = QFont.Weight.Normal,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._text, self._role, self._mode = text, role, mode
        self._swatch: QColor | None = None
        self._hint = ""
        self.setFont(theme.font(pixels, weight))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setText(text)

    def text(self) -> str:
        return self._text

    def set_hint(self, text: str) -> None:
        """What is said of it where the mouse rests and all of it is shown; plain text."""
        self._hint = text
        self.update()

    def set_swatch(self, color: QColor) -> None:
        """A small square of this colour before the text."""
        self._swatch = color
        self.updateGeometry()
        self.update()

    @property
    def _indent(self) -> int:
        return SWATCH + 7 if self._swatch is not None else 0

    def setText(self, text: str) -> None:
        self._text = " ".join(text.split())
        self.setAccessibleName(self._text)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        metrics, margins = self.fontMetrics(), self.contentsMargins()
        width = metrics.horizontalAdvance(self._text) + 2 + self._indent
        return QSize(width, metrics.height() + 2).grownBy(margins)

    def minimumSizeHint(self) -> QSize:
        return QSize(min(24, self.sizeHint().width()), self.sizeHint().height())

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        colors = theme.current()
        painter.setPen(
            {"secondary": colors.text_secondary, "faint": colors.text_faint}.get(self._role, colors.text)
        )
        if self._swatch is not None:
            painter.fillRect(
                self.contentsRect().x(), (self.height() - SWATCH) // 2, SWATCH, SWATCH, self._swatch
            )
        room = self.contentsRect().adjusted(self._indent, 0, 0, 0)
        shown = self.fontMetrics().elidedText(self._text, self._mode, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, shown)
        whole = tooltip(self._text if shown != self._text else self._hint)
        if whole != self.toolTip():
            self.setToolTip(whole)


class Figure(QObject):
    """A label that shows a figure: a click says what it is the sum of, once ``explain`` is told so."""

    clicked = Signal()

    def __init__(self, label: Label | ElidedLabel) -> None:
        super().__init__(label)
        self._label, self._explains = label, False
        label.installEventFilter(self)

    def explain(self, on: bool = True) -> None:
        """Whether somebody knows what it is the sum of."""
        self._explains = on
        self._label.setCursor(Qt.CursorShape.PointingHandCursor if on else Qt.CursorShape.ArrowCursor)
        self._label.set_hint("Click for what it is the sum of" if on else "")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        wanted = (
            self._explains
            and isinstance(event, QMouseEvent)
            and event.type() is QEvent.Type.MouseButtonRelease
            and event.button() is Qt.MouseButton.LeftButton
            and self._label.rect().contains(event.position().toPoint())
        )
        if wanted:
            self.clicked.emit()
        return wanted
