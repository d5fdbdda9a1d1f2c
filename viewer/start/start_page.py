"""The start page: open, samples with their stories, recent files, record a script, and the formats read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFont,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QGridLayout,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from parsers.model.units import duration
from viewer.appearance import theme
from viewer.appearance.palette import HATCHED
from viewer.appearance.widgets import (
    NO_MARGINS,
    SPRING,
    ElidedLabel,
    Label,
    fill,
    horizontal,
    tooltip,
    vertical,
)
from viewer.start.opening import Sample, formats, samples
from viewer.user_data.recent import (
    COLUMNS,
    WHOLE,
    Recent,
    Row,
    Summary,
    forget,
    left_open,
    recent_files,
    when,
)


class Tile(QAbstractButton):
    """A title, a line of text and a small remark; the whole tile is the button."""

    def __init__(self, title: str, text: str, remark: str) -> None:
        super().__init__()
        self.setText(title)
        self.setAccessibleName(f"{title}. {text}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        layout = self._column = vertical(self, (14, 11, 14, 11), 3)
        top = horizontal(spacing=10)
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


BAR_HEIGHT = 5
STRIP_HEIGHT = 26
GAP = 2
HATCHED_SHARE = 0.35


class RunPicture(QWidget):
    """A strip for each device, time from left to right and busy time from below; under it, its budget as a bar."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(200, STRIP_HEIGHT + (GAP + BAR_HEIGHT if len(self._rows) == 1 else 0))

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        height = (STRIP_HEIGHT - GAP * (len(self._rows) - 1)) / len(self._rows)
        for number, row in enumerate(self._rows):
            self._strip(painter, row, number * (height + GAP), height)
        if len(self._rows) == 1:
            self._bar(painter, self._rows[0], STRIP_HEIGHT + GAP)

    def _strip(self, painter: QPainter, row: Row, top: float, height: float) -> None:
        colors = theme.current()
        painter.fillRect(QRectF(0, top, self.width(), height), colors.strip)
        wide = self.width() / COLUMNS
        filled = [0.0] * COLUMNS
        for key, values in row.items():
            ground = _fill(key)
            for column, value in enumerate(values):
                high = min(value / WHOLE, 1.0 - filled[column]) * height
                bottom = top + height - filled[column] * height
                painter.fillRect(QRectF(column * wide, bottom - high, wide + 0.3, high), ground)
                filled[column] += high / height

    def _bar(self, painter: QPainter, row: Row, top: float) -> None:
        left = 0.0
        for key, share in shares(row).items():
            wide = min(share * self.width(), self.width() - left)
            painter.fillRect(QRectF(left, top, max(wide - 1, 1), BAR_HEIGHT), _fill(key))
            left += wide


def shares(row: Row) -> Mapping[str, float]:
    """The share of the whole picture that each part has."""
    return {key: sum(values) / (WHOLE * COLUMNS) for key, values in row.items()}


def _fill(key: str) -> QColor:
    colors = theme.current()
    fill = colors.part(key)
    return theme.mixed(fill, colors.panel, HATCHED_SHARE) if key in HATCHED else fill


def _facts(summary: Summary) -> str:
    length = duration(summary.duration_ns) if summary.duration_ns > 0 else ""
    return ", ".join(word for word in (summary.device, length) if word)


class RecentTile(Tile):
    """Opens its files; with ``removable`` it can be taken off the list by the mouse, the menu key or Delete."""

    remove_wanted = Signal()

    def __init__(self, recent: Recent, *, removable: bool = False) -> None:
        self.missing = not recent.exists
        summary = recent.summary
        opened = when(summary.opened, time.time()) if summary is not None else ""
        super().__init__(recent.name, recent.verdict or recent.folder, "" if self.missing else opened)
        self.recent = recent
        self._removable = removable
        self.setToolTip(tooltip("\n".join(recent.paths)))
        words = "" if summary is None else _facts(summary)
        if self.missing:
            words = "File not found" + (f", was: {words}" if words else "")
        place = self._column.count() - 1
        if summary is not None and summary.rows and not self.missing:
            picture = RunPicture(summary.rows)
            self._column.insertSpacing(place, 3)
            self._column.insertWidget(place + 1, picture)
            place += 2
        foot = QHBoxLayout()
        foot.addWidget(ElidedLabel(words, "faint", pixels=theme.SECONDARY_PX), 1)
        self.remove_button = QToolButton()
        self.remove_button.setText("Remove")
        self.remove_button.setAccessibleName(f"Remove {recent.name} from the list")
        self.remove_button.clicked.connect(self.remove_wanted)
        self.remove_button.setVisible(removable and self.missing)
        foot.addWidget(self.remove_button)
        if words or self.missing:
            self._column.insertLayout(place, foot)
        for child in self.findChildren(QWidget):
            if child is not self.remove_button:
                child.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName(
            ". ".join(part for part in (recent.name, recent.verdict, words, opened) if part)
        )
        if removable:
            self.setAccessibleDescription("Press Delete to remove it from the list")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._removable and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.remove_wanted.emit()
        else:
            super().keyPressEvent(event)

    def menu(self) -> QMenu:
        menu = QMenu(self)
        menu.addAction("Open", self.click)
        menu.addAction("Remove from the list", self.remove_wanted.emit)
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if self._removable:
            self.menu().exec(event.globalPos())


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
        self.setFocus(Qt.FocusReason.OtherFocusReason)

    def refresh(self) -> None:
        """Build the page anew: recent files may have changed."""
        self._built = True
        body = QWidget()
        outer = horizontal(body, (24, 12, 24, 12))
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
        known = recent_files()
        left = [next((each for each in known if each.paths == one.paths), one) for one in self.left_open[:4]]
        recent = [each for each in known if each not in left][:MAX_RECENT]
        if left:
            column.addSpacing(self._scaled(12))
            column.addWidget(
                Label("Open when Stallscope last closed", pixels=14, weight=QFont.Weight.DemiBold)
            )
            self._tiles(column, left, self._left_open_tile, columns=2)
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
        self.setFocusProxy(self.open_button)

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
