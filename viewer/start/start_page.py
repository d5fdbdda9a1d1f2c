"""The start page: open, samples with their stories, recent files, record a script, and the formats read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFont, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from viewer.appearance.boxes import NO_MARGINS, SPRING, fill, horizontal, vertical
from viewer.appearance.labels import ElidedLabel, Label
from viewer.start.opening import Sample, formats, samples
from viewer.start.tile import RecentTile, Tile
from viewer.user_data.recent import Recent, forget, left_open, recent_files

PAGE_WIDTH = 980
NATURAL = 1366, 768  # px: on larger screens the page grows
MAX_SCALE = 2.0  # times
MAX_RECENT = 6

Thing = TypeVar("Thing")
Made = TypeVar("Made", bound=Tile)


class StartPage(QScrollArea):
    """What is shown while nothing is open. A folder or a file can be dropped anywhere on the window."""

    open_wanted = Signal()
    folder_wanted = Signal()
    record_wanted = Signal()
    paths_wanted = Signal(object)  # list of Path
    recent_removed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Start")
        self.sample_tiles: list[Tile] = []
        self.recent_tiles: list[RecentTile] = []
        self.left_open = left_open()
        self._scale = 1.0
        self._built = False

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._built:
            self.refresh()

    def refresh(self) -> None:
        """Build the page anew: recent files may have changed."""
        self._built = True
        body = QWidget()
        outer = horizontal(body, (24, 28, 24, 24))
        page = QWidget()
        page.setMaximumWidth(round(PAGE_WIDTH * self._scale))
        fill(outer, SPRING, (page, 100), SPRING)
        column = fill(
            vertical(page, NO_MARGINS, self._scaled(8)),
            SPRING,
            Label("What is your GPU waiting for?", pixels=24, weight=QFont.Weight.DemiBold),
            Label(
                "Open a profiler recording. Stallscope says what is slow, how much a fix would give, "
                "where to see it, and what to change.",
                "secondary",
                wrap=True,
            ),
        )
        column.addSpacing(self._scaled(6))
        column.addLayout(self._buttons())
        if self.left_open:
            column.addSpacing(self._scaled(12))
            column.addWidget(
                Label("Open when Stallscope last closed", pixels=14, weight=QFont.Weight.DemiBold)
            )
            self._tiles(column, self.left_open[:4], self._left_open_tile, columns=2)
        recent = recent_files()[:MAX_RECENT]
        self.recent_tiles = []
        if recent:
            column.addSpacing(self._scaled(12))
            column.addWidget(Label("Recent", pixels=14, weight=QFont.Weight.DemiBold))
            self.recent_tiles = self._tiles(column, recent, self._recent_tile, columns=2)
        column.addSpacing(self._scaled(12))
        column.addWidget(Label("Try a sample", pixels=14, weight=QFont.Weight.DemiBold))
        self.sample_tiles = self._tiles(column, samples(), self._sample_tile, columns=3)
        column.addSpacing(self._scaled(12))
        column.addWidget(Label("Opens recordings from", pixels=14, weight=QFont.Weight.DemiBold))
        familiar = tuple({sample.kind.partition(",")[0] for sample in samples()})
        names = sorted(
            (name for name, _ in formats()), key=lambda name: (not name.startswith(familiar), name.lower())
        )
        which = Label(", ".join(names) + ".", "secondary", wrap=True)
        which.setToolTip("\n".join(f"{name}: {files}" for name, files in formats()))
        column.addWidget(which)
        column.addStretch(2)
        if self._scale > 1:
            _enlarge(body, self._scale)
        self.setWidget(body)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        room = min(self.width() / NATURAL[0], self.height() / NATURAL[1])
        scale = round(min(max(room**0.65, 1.0), MAX_SCALE), 1)
        if scale != self._scale:
            self._scale = scale
            if self._built:
                self.refresh()

    def _scaled(self, pixels: int) -> int:
        return round(pixels * self._scale)

    def _buttons(self) -> QHBoxLayout:
        row = horizontal(spacing=8)
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
        self, column: QVBoxLayout, things: Sequence[Thing], make: Callable[[Thing], Made], columns: int
    ) -> list[Made]:
        grid = QGridLayout()
        grid.setSpacing(self._scaled(8))
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

    def _left_open_tile(self, recent: Recent) -> RecentTile:
        tile = RecentTile(recent)
        tile.clicked.connect(lambda: self.paths_wanted.emit([Path(path) for path in recent.paths]))
        return tile

    def _recent_tile(self, recent: Recent) -> RecentTile:
        tile = RecentTile(recent, removable=True)
        tile.clicked.connect(lambda: self.paths_wanted.emit([Path(path) for path in recent.paths]))
        tile.remove_wanted.connect(lambda: self._remove(recent))
        return tile

    def _remove(self, recent: Recent) -> None:
        """Take one entry off the list; the keyboard goes on with the next one."""
        place = [tile.recent.paths for tile in self.recent_tiles].index(recent.paths)
        forget(recent)
        self.recent_removed.emit()
        QTimer.singleShot(0, self, lambda: self._after_removal(place))  # the tile is still handling its event

    def _after_removal(self, place: int) -> None:
        self.refresh()
        left: list[QWidget] = [*self.recent_tiles[: place + 1]]
        (left or [self.open_button])[-1].setFocus()


def _enlarge(page: QWidget, times: float) -> None:
    """Text and buttons in proportion, as everything lies between them."""
    parts = page.findChildren(QWidget)
    fonts = [part.font() for part in parts]
    for part, font in zip(parts, fonts, strict=True):
        if font.pixelSize() > 0:
            font.setPixelSize(round(font.pixelSize() * times))
            part.setFont(font)
        part.setMinimumHeight(round(part.minimumHeight() * times))
