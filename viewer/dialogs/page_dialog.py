"""Dialogs that are one page to read: they scroll with mouse and keys, and close with Esc."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QDialog, QGridLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from parsers.model import Effect, Trace
from viewer.appearance.key_names import key_names
from viewer.appearance.tab_order import TabOrder
from viewer.appearance.widgets import NO_MARGINS, Label, fill, horizontal, resize_within_screen, vertical
from viewer.user_data.preferences import WHEELS, Preferences
from viewer.user_data.storage import data_folder


class PageDialog(QDialog):
    """Shows ``body`` under a title; ``told`` is what screen readers call the page."""

    def __init__(
        self, title: str, told: str, size: tuple[int, int], body: QWidget, parent: QWidget | None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        resize_within_screen(self, *size)
        self.tab_order = TabOrder(self)
        scroll = QScrollArea()
        scroll.setAccessibleName(told)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(body)
        fill(vertical(self, NO_MARGINS), scroll)

    def focusNextPrevChild(self, forward: bool) -> bool:
        return self.tab_order.step((self,), forward)


_EFFECT = {Effect.REPAIRED: "repaired", Effect.QUARANTINED: "left out", Effect.NOTED: "noted"}


class QualityDialog(PageDialog):
    """The loss account of one trace."""

    def __init__(self, trace: Trace, parent: QWidget | None = None) -> None:
        body, quality = QWidget(), trace.quality
        column = vertical(body, (20, 18, 20, 18), 8)
        total = (
            f"{quality.events_read:,} events read, {quality.events_kept:,} kept, {quality.repaired:,} repaired, "
            f"{quality.quarantined:,} left out."
        )
        column.addWidget(Label(total, pixels=14, weight=QFont.Weight.DemiBold, wrap=True, selectable=True))
        for each in trace.inputs:
            column.addWidget(
                Label(f"{each.path}: {each.format}, {each.producer}", "secondary", wrap=True, selectable=True)
            )
        for note in quality.notes:
            column.addSpacing(6)
            title = f"{note.count:,} {_EFFECT[note.effect]}: {note.kind.replace('-', ' ')}"
            fill(
                column,
                Label(title, weight=QFont.Weight.DemiBold, wrap=True),
                Label(note.reason, "secondary", wrap=True),
            )
            if note.example:
                column.addWidget(
                    Label(f"For example {note.example}", "faint", pixels=12, wrap=True, selectable=True)
                )
        if not quality.notes:
            column.addWidget(Label("Nothing had to be repaired or left out.", "secondary"))
        column.addStretch(1)
        super().__init__("What was read", "What was read and what was left out", (620, 420), body, parent)


WIDE = 1400  # px of a screen: three columns of keys have room
TIMELINE_KEYS = (
    ("W  S", "zoom in, out at the cursor"),
    ("A  D", "move left, right"),
    ("Shift+wheel", "move; the wheel over the names scrolls the lanes, Ctrl+wheel on the overview zooms it"),
    ("Touchpad", "two fingers move and scroll, a pinch zooms"),
    ("Drag", "select an area; on the ruler: measure"),
    ("Shift+drag", "move; also with the middle button"),
    (
        "Double click",
        "zoom to an event or a gap; on a step: count time from it; on the ruler: from the start",
    ),
    ("Click", "select an event or a gap; on a step: fit it"),
    ("Home  End", "to the beginning, to the end"),
    ("Page Up  Down", "scroll the lanes"),
    ("Shift+Up  Down", "select the nearest event of the row above, below"),
    ("Right click", "on a lane: pin, fold, hide; drag its name to move it, its lower edge to resize it"),
)
PANEL_KEYS = (
    ("Left  Right", "on a card: previous, next place of the finding"),
    ("Up  Down", "on a card: previous, next finding"),
    ("Space  J  K", "on a fix: tick it; to the next, previous"),
    ("Tab", "from one part of the window to the next"),
    ("Return", "in a table: show the row on the timeline"),
    ("Ctrl+C", "on the timeline: copy the details of the selection"),
    ("Ctrl+C", "in a table: copy the rows as text"),
    ("Ctrl+Shift+C", "in a table: copy the rows as CSV"),
)

Keys = tuple[str, Sequence[tuple[str, str]]]  # a heading, and (keys, what they do)


class ShortcutSheet(PageDialog):
    """All keys at a glance; ``commands`` are the menus with the (keys, text) of their commands.

    Where there are no ``panels``, their keys are left out.
    """

    def __init__(
        self, commands: Sequence[Keys], parent: QWidget | None = None, *, panels: bool = True
    ) -> None:
        habit = WHEELS[Preferences().wheel]
        wheel = ("Wheel", f"{habit[0].lower()}{habit[1:]}; other habits: preferences")
        groups = [("Timeline", (wheel, *TIMELINE_KEYS)), *commands]
        groups += [("Panels", PANEL_KEYS)] if panels else []
        groups[1:] = sorted(groups[1:], key=lambda group: -len(group[1]))  # so that all columns get as long
        body = QWidget()
        side_by_side = horizontal(body, (24, 18, 24, 18), 36)
        is_wide = QGuiApplication.primaryScreen().availableGeometry().width() >= WIDE
        columns = [QVBoxLayout() for _ in range(3 if is_wide else 2)]
        filled = [0] * len(columns)
        for title, rows in groups:
            shortest = filled.index(min(filled))
            filled[shortest] += len(rows) + 2
            heading = Label(title, pixels=14, weight=QFont.Weight.DemiBold)
            heading.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
            columns[shortest].addWidget(heading)
            grid = QGridLayout()
            grid.setHorizontalSpacing(18)
            grid.setVerticalSpacing(3)
            for number, (keys, text) in enumerate(rows):
                grid.addWidget(Label(key_names(keys), weight=QFont.Weight.DemiBold, pixels=12), number, 0)
                grid.addWidget(Label(key_names(text), "secondary", wrap=True), number, 1)
            grid.setColumnStretch(1, 1)
            grid.setColumnMinimumWidth(0, 96)
            columns[shortest].addLayout(grid)
            columns[shortest].addSpacing(14)
        for column in columns:
            column.setSpacing(4)
            column.addStretch(1)
            side_by_side.addLayout(column, 1)
        size = (1320, 720) if is_wide else (1000, 800)
        super().__init__("Keyboard and mouse", "Keys and what they do", size, body, parent)


class AboutDialog(QDialog):
    """Facts for a bug report."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About Stallscope")
        layout = vertical(self, (24, 20, 24, 20), 8)
        self.setMinimumWidth(460)
        fill(
            layout,
            Label(f"Stallscope {_version('stallscope')}", pixels=18, weight=QFont.Weight.DemiBold),
            Label("Says what the GPU is waiting for, and what to change.", "secondary"),
        )
        libraries = ", ".join(
            f"{name} {_version(name)}" for name in ("PySide6-Essentials", "numpy", "pandas")
        )
        text = f"Python {sys.version.split()[0]}, {libraries}"
        fill(
            layout,
            Label(text, "secondary", wrap=True, selectable=True),
            Label(f"Log and recent files: {data_folder()}", "secondary", wrap=True, selectable=True),
        )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "from source"
