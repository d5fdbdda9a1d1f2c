"""The kernels tab: GPU operations by name or by family, with their share of the GPU's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from PySide6.QtWidgets import QStackedLayout, QWidget

from viewer.document import Document
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

if TYPE_CHECKING:
    import pandas as pd

OF_ALL = "Share of the summed time of all GPU operations"
BY_NAME = (
    Column("short", "Kernel", whole="name"),
    Column("family", "Family", Show.FAMILY),
    Column("calls", "Calls", Show.COUNT),
    Column("total", "Total", Show.TIME),
    Column("mean", "Mean", Show.TIME),
    Column("p50", "p50", Show.TIME, "Half of the calls took no longer than this", minor=True),
    Column("p99", "p99", Show.TIME, "99 of 100 calls took no longer than this", minor=True),
    Column("share", "Share of GPU time", Show.SHARE, OF_ALL, short="Share"),
)
BY_FAMILY = (
    Column("family", "Family", Show.FAMILY),
    Column("kinds", "Kernels", Show.COUNT, "Different names"),
    Column("calls", "Calls", Show.COUNT),
    Column("total", "Total", Show.TIME),
    Column("mean", "Mean", Show.TIME),
    Column("share", "Share of GPU time", Show.SHARE, OF_ALL, short="Share"),
)


@tab
class KernelsPanel(Panel):
    """Follows the selected area or step; a row selects the longest call on the timeline."""

    title: ClassVar[str] = "Kernels"
    order: ClassVar[int] = 20
    has_families: ClassVar[bool] = True
    follows_area: ClassVar[bool] = True

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(document, parent)
        self.by_name = TableView(BY_NAME, "Kernels")
        self.by_family = TableView(BY_FAMILY, "Kernel families")
        self.tables = (self.by_name, self.by_family)
        self._stack = QStackedLayout()
        self.column.addLayout(self._stack)  # first: it shows what is added, which then needs a parent
        self._stack.addWidget(self.by_name)
        self._stack.addWidget(self.by_family)
        for table in self.tables:
            table.chosen.connect(lambda row, table=table: self._select(table, row))
        document.event_changed.connect(self._mark)

    def has_data(self) -> bool:
        trace = self.document.trace
        return trace is not None and self.document.analysis is not None and len(trace.gpu_operations) > 0

    def group_by_family(self, on: bool) -> None:
        """Show families instead of single kernels."""
        self._stack.setCurrentIndex(int(on))

    def refresh(self) -> None:
        trace, analysis = self.document.trace, self.document.analysis
        t0, t1 = self.span
        if trace is None or analysis is None:
            return

        def work() -> tuple[pd.DataFrame, pd.DataFrame]:
            from viewer.statistics.kernels import family_table, kernel_table

            kernels = kernel_table(trace, analysis, t0, t1)
            return kernels, family_table(kernels)

        self.compute(work, self._show)

    def _show(self, tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
        self.by_name.set_frame(tables[0])
        self.by_family.set_frame(tables[1])

    def _select(self, table: TableView, row: int) -> None:
        frame = table.rows.frame
        if frame is not None:
            self.document.select_event(int(frame["event"].iloc[row]))

    def _mark(self, event: int) -> None:
        frame, trace = self.by_name.rows.frame, self.document.trace
        if frame is None or trace is None or event < 0 or not len(frame):
            return
        found = (frame["name"] == trace.name(event)).to_numpy().nonzero()[0]
        self.by_name.select_frame_row(int(found[0]) if len(found) else -1)
