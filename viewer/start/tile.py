"""Tiles of the start page: a button with a title, a text and a remark; that of a recent file with its picture."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QFont, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget

from parsers.model.units import duration
from viewer.appearance import theme
from viewer.appearance.boxes import horizontal, vertical
from viewer.appearance.labels import ElidedLabel, Label, tooltip
from viewer.appearance.palette import HATCHED
from viewer.user_data.recent import COLUMNS, WHOLE, Recent, Row, Summary, when


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
        """What can be done with the entry."""
        menu = QMenu(self)
        menu.addAction("Open", self.click)
        menu.addAction("Remove from the list", self.remove_wanted.emit)
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if self._removable:
            self.menu().exec(event.globalPos())
