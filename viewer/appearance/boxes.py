"""What widgets are laid out in: rows, columns, areas that scroll, lines between, and forms; the buttons in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from viewer.appearance import theme
from viewer.appearance.labels import Label


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
