"""What widgets are laid out in: rows and columns with their margins, areas that scroll, and lines between."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from viewer.look import theme

Margins = tuple[int, int, int, int]  # left, top, right, bottom, in pixels
NO_MARGINS = (0, 0, 0, 0)
Box = TypeVar("Box", bound=QBoxLayout)


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
