"""The instructions of a kernel: where its warps were sampled, what they waited for there, how often each ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QVBoxLayout, QWidget

from parsers.model import KernelProfile
from viewer.look.labels import Label
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    Column("line", "Line", Show.COUNT),
    Column("address", "Address", width=80),
    Column("text", "Instruction", stretch=True),
    Column("share", "Samples", Show.SHARE, "Of all samples of the kernel's warps"),
    Column("stall", "Waits for", width=150),
    Column("stalled", "of these", Show.PERCENT, "Share of the samples of this line"),
    Column("executed", "Executed", Show.COUNT, "By warps"),
)
HOW = (
    "No source page of this kernel is open. Export one with: ncu --import REPORT.ncu-rep --page source --csv, "
    "and open it together with the report."
)


class SourceTable(QWidget):
    """In the order of the program; a click on a heading sorts the hottest lines to the top."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = TableView(COLUMNS, "Instructions")
        self.note = Label("", "secondary", wrap=True)
        self.note.setContentsMargins(14, 8, 14, 8)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.note)
        column.addWidget(self.table, 1)

    def show_kernel(self, kernel: KernelProfile) -> None:
        """The instructions of one kernel, or how to get them."""
        from viewer.statistics.kernel_source import hottest, source_frame

        self.table.setVisible(kernel.source is not None)
        if kernel.source is None:
            self.note.setText(HOW)
            return
        frame: pd.DataFrame = source_frame(kernel.source)
        self.table.set_frame(frame)
        self.note.setText(hottest(frame))
