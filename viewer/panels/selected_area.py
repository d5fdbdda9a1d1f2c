"""The selected area: what each GPU did in it, and a table of exactly its time and lanes, to copy or to fly from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QComboBox, QGridLayout, QPushButton, QWidget

from parsers.model.units import duration, how_many, percent
from viewer.appearance.widgets import NO_MARGINS, ElidedLabel, Label, empty_out, fill, horizontal, vertical
from viewer.documents.document import Document
from viewer.panels.charts.budget_bar import BudgetBar, Part
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView
from viewer.statistics.budget_intervals import places_of
from viewer.timeline.selection import Area

if TYPE_CHECKING:
    import pandas as pd

    from viewer.statistics.area import By, DeviceArea

COLUMNS = (
    Column("short", "Name", whole="group"),
    Column("where", "On", minor=True),
    Column("count", "Count", Show.COUNT),
    Column("own", "Own time", Show.TIME, "Time inside the area, without nested calls: adds up to the total"),
    Column("total", "Total", Show.TIME, "Time inside the area, with nested calls"),
    Column("mean", "Mean", Show.TIME, minor=True),
    Column("least", "Shortest", Show.TIME, minor=True),
    Column("most", "Longest", Show.TIME),
    Column(
        "share", "Share", Show.SHARE, "Share of the own time of everything on lanes of this kind in the area"
    ),
)
GROUPINGS: dict[str, By] = {"by name": "name", "by family": "family", "by lane": "lane"}
MAX_BARS = 4  # GPUs of which a bar is shown; of more the table by lane tells


class SelectedArea(QWidget):
    """Follows what it is told to show; ``wanted`` asks for the work, which others do off the GUI thread."""

    wanted = Signal()  # another grouping

    def __init__(self, document: Document) -> None:
        super().__init__()
        self.document = document
        self.area: Area | None = None
        self.devices: tuple[DeviceArea, ...] = ()
        self.table = TableView(COLUMNS, "Selected area")
        self.table.chosen.connect(self._select_row)
        self.text = ElidedLabel("", "secondary")
        self.grouping = QComboBox()
        self.grouping.addItems(list(GROUPINGS))
        self.grouping.setAccessibleName("Group")
        self.grouping.currentIndexChanged.connect(lambda _: self.wanted.emit())
        self.copy = QPushButton("Copy")
        self.copy.setToolTip("Puts what each GPU did and the table on the clipboard, as text")
        self.copy.clicked.connect(self.copy_all)
        top = fill(horizontal(margins=(14, 6, 10, 4), spacing=8), (self.text, 1), self.copy, self.grouping)
        self._bars = QGridLayout()
        self._bars.setContentsMargins(14, 0, 10, 4)
        self._bars.setHorizontalSpacing(10)
        self._bars.setVerticalSpacing(2)
        self._bars.setColumnStretch(1, 1)
        fill(vertical(self, NO_MARGINS, 0), top, self._bars, (self.table, 1))

    @property
    def by(self) -> By:
        return GROUPINGS[self.grouping.currentText()]

    def begin(self, area: Area) -> None:
        """An area whose contents are not known yet."""
        self.area = area
        self.text.setText(f"{duration(area.end - area.start)} selected")

    def show_contents(
        self, area: Area, count: int, devices: tuple[DeviceArea, ...], frame: pd.DataFrame
    ) -> None:
        lanes = f" on {how_many(len(area.lanes), 'lane')}" if area.lanes else ""
        self.text.setText(f"{duration(area.end - area.start)} selected{lanes}, {count:,} events")
        self.devices = devices
        empty_out(self._bars)
        for row, each in enumerate(devices[:MAX_BARS]):
            parts = [Part(key, label, ns) for key, label, ns in each.parts]
            bar = BudgetBar(each.device, parts, each.window_ns, thin=True)
            bar.setAccessibleName(each.text)
            bar.chosen.connect(self._show_places)
            self._bars.addWidget(Label(_busy(each), "secondary", pixels=12), row, 0)
            self._bars.addWidget(bar, row, 1)
        self.table.set_frame(frame)

    def copy_all(self) -> None:
        """Put everything about the area on the clipboard."""
        rows = list(range(self.table.rows.rowCount()))
        lines = [self.text.text(), *(each.text for each in self.devices), "", self.table.rows.as_text(rows)]
        QGuiApplication.clipboard().setText("\n".join(lines))

    def _show_places(self, device: int, key: str, label: str) -> None:
        analysis, area = self.document.analysis, self.area
        if analysis is not None and area is not None:
            self.document.show_evidence(places_of(analysis, device, key, label, area.start, area.end))

    def _select_row(self, row: int) -> None:
        frame = self.table.rows.frame
        if frame is not None:
            self.document.event_shown.emit(int(frame["event"].iloc[row]))


def _busy(each: DeviceArea) -> str:
    return f"{each.name} busy {percent(each.busy_ns / max(each.window_ns, 1))}"
