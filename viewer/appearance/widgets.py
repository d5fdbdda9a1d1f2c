"""What windows are put together from: rows, columns, forms and buttons, and labels that show text as it is."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from parsers.model.late import regex
from viewer.appearance import theme

MAX_TOOLTIP_LENGTH = 1200
SWATCH = 9


def tooltip(text: str) -> str:
    """``text`` for ``setToolTip``, which would otherwise guess whether it is markup."""
    shown = text if len(text) <= MAX_TOOLTIP_LENGTH else text[:MAX_TOOLTIP_LENGTH] + " ..."
    return f'<p style="white-space:pre-wrap;margin:0">{html.escape(shown)}</p>' if shown else ""


_VALUE = regex(
    r"(?<=\d) (?=(?:%|ns|us|ms|s|B|KB|MB|GB|TB|x)(?![A-Za-z]))|(?<=\S) (?=→ \d)|(?<=→) (?=\d)"
    r"|(?<=\d) (?=to \d)|(?<=\d to) (?=\d)"
)


def unbroken(text: str) -> str:
    """``text`` in which no end of a line parts values from their unit, or from the other end of a range."""
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
    """One line of plain text that ends in an ellipsis where it does not fit, with the whole text as tooltip.

    With a ``separator`` it ends after the last part that fits, and without any part where none does.
    """

    def __init__(
        self,
        text: str = "",
        role: str = "",
        *,
        pixels: int = theme.BODY_PX,
        weight: QFont.Weight = QFont.Weight.Normal,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        separator: str = "",
    ) -> None:
        super().__init__()
        self._text, self._role, self._mode, self._separator = text, role, mode, separator
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

    def shown_text(self, room: int) -> str:
        """What of the text stands in so many pixels."""
        metrics = self.fontMetrics()
        if not self._separator:
            return metrics.elidedText(self._text, self._mode, room)
        parts = self._text.split(self._separator)
        while parts and metrics.horizontalAdvance(self._separator.join(parts)) > room:
            parts.pop()
        return self._separator.join(parts)

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
        shown = self.shown_text(room.width())
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


def push_button(text: str = "", pressed: Callable[..., object] | None = None, tip: str = "") -> QPushButton:
    """A button that Enter does not press while something else has the focus."""
    button = QPushButton(text)
    button.setAutoDefault(False)
    button.setToolTip(tip)
    if pressed is not None:
        button.clicked.connect(pressed)
    return button


def close_button(says: str, pressed: Callable[..., object], tip: str = "") -> QToolButton:
    """The cross at the end of a bar."""
    button = QToolButton()
    button.setText("✕")
    button.setAutoRaise(True)
    button.setAccessibleName(says)
    button.setToolTip(tip)
    button.clicked.connect(pressed)
    return button


def menu_button(text: str = "", padding: str = "") -> QToolButton:
    """A button that opens its menu, without the mark that Qt draws beside its words."""
    button = QToolButton()
    button.setText(text)
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    style = f"QToolButton {{ padding: {padding}; }} " if padding else ""
    button.setStyleSheet(f"{style}QToolButton::menu-indicator {{ image: none; }}")
    button.setMenu(QMenu(button))
    return button


Margins = tuple[int, int, int, int]  # left, top, right, bottom, in pixels
NO_MARGINS = (0, 0, 0, 0)
SHARE_OF_SCREEN = 0.92  # that a window takes at first, at most
SPRING = 1  # in a box: room that takes what is left
Box = TypeVar("Box", bound=QBoxLayout)
Held = QWidget | QLayout | int
Item = Held | tuple[QWidget | QLayout, int] | tuple[QWidget, int, Qt.AlignmentFlag]


def resize_within_screen(window: QWidget, width: int, height: int) -> None:
    """Give a window its first size in pixels, or as much of it as leaves the edges of the screen free."""
    room = QGuiApplication.primaryScreen().availableGeometry()
    most = room.width() * SHARE_OF_SCREEN, room.height() * SHARE_OF_SCREEN
    window.resize(round(min(width, most[0])), round(min(height, most[1])))


def vertical(
    of: QWidget | None = None, margins: Margins | None = None, spacing: int | None = None
) -> QVBoxLayout:
    """Widgets below each other, in ``of`` if that is given; what is not stated is as the style has it."""
    return _stated(QVBoxLayout() if of is None else QVBoxLayout(of), margins, spacing)


def horizontal(
    of: QWidget | None = None, margins: Margins | None = None, spacing: int | None = None
) -> QHBoxLayout:
    """Widgets beside each other."""
    return _stated(QHBoxLayout() if of is None else QHBoxLayout(of), margins, spacing)


def fill(box: Box, *items: Item) -> Box:
    """Put widgets and layouts into a box, each alone or with its share of the room and its alignment."""
    for item in items:
        _put(box, *(item if isinstance(item, tuple) else (item,)))
    return box


def _put(box: QBoxLayout, held: Held, *how: Any) -> None:
    if isinstance(held, QWidget):
        box.addWidget(held, *how)
    elif isinstance(held, QLayout):
        box.addLayout(held, *how)
    else:
        box.addStretch(held)


def _stated(box: Box, margins: Margins | None, spacing: int | None) -> Box:
    if margins is not None:
        box.setContentsMargins(*margins)
    if spacing is not None:
        box.setSpacing(spacing)
    return box


def scrolling(content: QWidget | None = None, sideways: bool = False) -> QScrollArea:
    """An area without a frame that takes no focus, as wide as what is in it unless it also scrolls ``sideways``."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QScrollArea.Shape.NoFrame)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    if not sideways:
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if content is not None:
        area.setWidget(content)
    return area


class HorizontalLine(QWidget):
    """One pixel in the theme's line colour."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(1)

    def paintEvent(self, _: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), theme.current().line)


LABEL_WIDTH = 124
MARGIN = 16  # of a dialog's pages


class Form(QFormLayout):
    """Rows of a label and its fields; what is beside each other is named for screen readers, too."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__()
        if parent is not None:
            parent.setLayout(self)
        self.setContentsMargins(0, 0, 0, 0)
        self.setHorizontalSpacing(8)
        self.setVerticalSpacing(8)
        self.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)

    def add(self, text: str, *fields: QWidget) -> None:
        """A row; several fields stand beside each other, and those without words of their own get the row's."""
        label = QLabel(text)
        label.setFixedWidth(LABEL_WIDTH)
        field = fields[0] if len(fields) == 1 else beside(*fields)
        self.addRow(label, field)
        for each in fields:
            if text and not each.accessibleName() and not isinstance(each, (QLabel, QAbstractButton)):
                each.setAccessibleName(text)

    def heading(self, text: str) -> None:
        """A title over the rows that follow."""
        label = Label(text, pixels=theme.BODY_PX + 1, weight=QFont.Weight.DemiBold)
        label.setContentsMargins(0, 12 if self.rowCount() else 0, 0, 0)
        self.addRow(label)


def empty_out(layout: QLayout) -> None:
    """Take everything out of a layout; its widgets are deleted."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.deleteLater()


def beside(*widgets: QWidget) -> QWidget:
    """Widgets in a row; a label names what follows it."""
    holder = QWidget()
    row = horizontal(holder, NO_MARGINS, 8)
    wide = [each for each in widgets if _takes_room(each)]
    for before, widget in zip((None, *widgets), widgets, strict=False):
        row.addWidget(widget, 1 if widget in wide else 0)
        if isinstance(before, QLabel) and not isinstance(widget, QLabel):
            widget.setAccessibleName(before.text())
    if not wide:
        row.addStretch(1)
    return holder


def _takes_room(widget: QWidget) -> bool:
    return isinstance(widget, QLineEdit) or (isinstance(widget, QComboBox) and widget.isEditable())
