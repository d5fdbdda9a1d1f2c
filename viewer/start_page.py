"""The start page: open, samples with their stories, recent files, record a script, and the formats read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QEnterEvent, QFont, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from viewer import theme
from viewer.labels import ElidedLabel, Label, tooltip
from viewer.opening import FORMATS, Recent, Sample, left_open, recent_files, samples

PAGE_WIDTH = 980


class Tile(QAbstractButton):
    """A title, a line of text and a small remark; the whole tile is the button."""

    def __init__(self, title: str, text: str, remark: str) -> None:
        super().__init__()
        self.setText(title)
        self.setAccessibleName(f"{title}. {text}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        layout = self._column = QVBoxLayout(self)
        layout.setContentsMargins(14, 11, 14, 11)
        layout.setSpacing(3)
        top = QHBoxLayout()
        top.addWidget(ElidedLabel(title, weight=QFont.Weight.DemiBold), 1)
        if remark:
            top.addWidget(Label(remark, "faint", pixels=theme.SECONDARY_PX))
        layout.addLayout(top)
        layout.addWidget(Label(text, "secondary", pixels=12, wrap=True))
        layout.addStretch(1)
        for child in self.findChildren(QWidget):
            child.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def sizeHint(self) -> QSize:
        return self._column.sizeHint()

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.update()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        lifted = self.underMouse() or self.hasFocus()
        painter.setPen(QPen(colors.accent if self.hasFocus() else colors.line, 1))
        painter.setBrush(colors.hover if lifted else colors.panel)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)


class StartPage(QScrollArea):
    """What is shown while nothing is open. A folder or a file can be dropped anywhere on the window."""

    open_wanted = Signal()
    folder_wanted = Signal()
    record_wanted = Signal()
    paths_wanted = Signal(object)  # list of Path

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Start")
        self.sample_tiles: list[Tile] = []
        self.recent_tiles: list[Tile] = []
        self.left_open_tiles: list[Tile] = []
        self.left_open = left_open()
        self.refresh()

    def refresh(self) -> None:
        """Build the page anew: recent files may have changed."""
        body = QWidget()
        outer = QHBoxLayout(body)
        outer.setContentsMargins(24, 28, 24, 24)
        page = QWidget()
        page.setMaximumWidth(PAGE_WIDTH)
        outer.addStretch(1)
        outer.addWidget(page, 100)
        outer.addStretch(1)
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(Label("What is your GPU waiting for?", pixels=24, weight=QFont.Weight.DemiBold))
        column.addWidget(
            Label(
                "Open a profiler recording. Stallscope says what is slow, how much fixing it can give at most, "
                "where to see it, and what to change.",
                "secondary",
                wrap=True,
            )
        )
        column.addSpacing(6)
        column.addLayout(self._buttons())
        if self.left_open:
            column.addSpacing(12)
            column.addWidget(
                Label("Still open when the program last ended", pixels=14, weight=QFont.Weight.DemiBold)
            )
            self.left_open_tiles = self._tiles(column, self.left_open[:4], self._recent_tile, columns=2)
        known = recent_files()
        recent = [each for each in known if each.exists][:4]
        if recent:
            column.addSpacing(12)
            column.addWidget(Label("Recent", pixels=14, weight=QFont.Weight.DemiBold))
            self.recent_tiles = self._tiles(column, recent, self._recent_tile, columns=2)
        column.addSpacing(12)
        column.addWidget(Label("Try a sample", pixels=14, weight=QFont.Weight.DemiBold))
        self.sample_tiles = self._tiles(column, samples(), self._sample_tile, columns=3)
        column.addSpacing(12)
        column.addWidget(Label("It reads", pixels=14, weight=QFont.Weight.DemiBold))
        formats = QGridLayout()
        formats.setHorizontalSpacing(18)
        formats.setVerticalSpacing(4)
        for row, (name, text) in enumerate(FORMATS):
            formats.addWidget(Label(name), row, 0)
            formats.addWidget(ElidedLabel(text, "secondary"), row, 1)
        formats.setColumnStretch(1, 1)
        column.addLayout(formats)
        column.addStretch(1)
        self.setWidget(body)

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(8)
        self.open_button = QPushButton("Open a recording ...")
        self.open_button.setDefault(True)
        self.open_button.clicked.connect(self.open_wanted)
        folder = QPushButton("Open a folder of ranks ...")
        folder.clicked.connect(self.folder_wanted)
        self.record_button = QPushButton("Record a script ...")
        self.record_button.clicked.connect(self.record_wanted)
        for button in (self.open_button, folder, self.record_button):
            button.setMinimumHeight(32)
            row.addWidget(button)
        row.addSpacing(8)
        row.addWidget(ElidedLabel("or drop files here", "faint"), 1)
        return row

    def _tiles(
        self, column: QVBoxLayout, things: Sequence[Any], make: Callable[[Any], Tile], columns: int
    ) -> list[Tile]:
        grid = QGridLayout()
        grid.setSpacing(8)
        tiles = [make(thing) for thing in things]
        for index, tile in enumerate(tiles):
            grid.addWidget(tile, index // columns, index % columns)
        for index in range(columns):
            grid.setColumnStretch(index, 1)
        column.addLayout(grid)
        return tiles

    def _sample_tile(self, sample: Sample) -> Tile:
        tile = Tile(sample.title, sample.story, sample.kind)
        tile.clicked.connect(lambda: self.paths_wanted.emit([sample.path]))
        return tile

    def _recent_tile(self, recent: Recent) -> Tile:
        tile = Tile(recent.name, recent.verdict or recent.folder, "")
        tile.setToolTip(tooltip("\n".join(recent.paths)))
        tile.clicked.connect(lambda: self.paths_wanted.emit([Path(path) for path in recent.paths]))
        return tile
