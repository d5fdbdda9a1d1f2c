"""A report without a timeline: all profiled launches, the roofline, and the details of one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QCheckBox, QSplitter, QStackedWidget, QWidget

from parsers.model import Trace
from rules import Finding
from viewer.appearance.widgets import NO_MARGINS, SPRING, ElidedLabel, fill, horizontal, vertical
from viewer.documents.document import Document
from viewer.panels.kernel.kernel_details import KernelDetails
from viewer.panels.kernel.kernel_pair import KernelPair
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

if TYPE_CHECKING:
    import pandas as pd

    from viewer.panels.charts.roofline import RooflinePlot

COLUMNS = (
    Column("short", "Kernel", whole="name"),
    Column("duration", "Duration", Show.TIME, "Under the profiler, which changes clocks and caches"),
    Column("limit", "Limited by"),
    Column("compute", "Compute", Show.SHARE, "Of the GPU's peak", width=112),
    Column("memory", "Memory", Show.SHARE, "Of the GPU's peak", width=112),
    Column("launches", "Launches", Show.COUNT, "Profiled launches in this row", minor=True),
    Column("occupancy", "Occupancy, %", Show.NUMBER, "Achieved", minor=True),
    Column("stall", "Waits for", minor=True),
    Column("registers", "Registers", Show.COUNT, "Of a thread", minor=True),
    Column("grid", "Grid", minor=True),
    Column("block", "Block", minor=True),
)

ROOM_FOR_ROOFLINE = 760  # px of table and roofline


class KernelReport(QWidget):
    """Takes the timeline's place for Nsight Compute reports."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document
        self.table = TableView(COLUMNS, "Profiled kernels")
        self.details = KernelDetails()
        self.roofline: RooflinePlot | None = None
        self.grouped = QCheckBox("One row a kernel")
        self.grouped.setToolTip(
            "Launches of one kernel, grid and block together; their details are those of the longest"
        )
        self.grouped.toggled.connect(lambda _: self._show_rows())
        self.baseline = QCheckBox("Compare with this one")
        self.baseline.setToolTip("Use this launch as a baseline and show every other one beside it")
        self.baseline.toggled.connect(self._keep_baseline)
        self._kept: int | None = None
        self._launches: pd.DataFrame | None = None
        launches = QWidget()
        column = vertical(launches, NO_MARGINS, 0)
        column.addWidget(self.table, 1)
        self.lacking = ElidedLabel(
            "No roofline: record with ncu --set full", "faint", pixels=12, separator=": "
        )
        self.lacking.hide()
        switches = fill(
            horizontal(margins=(10, 4, 10, 4), spacing=16), self.grouped, self.baseline, SPRING, self.lacking
        )
        column.addLayout(switches)
        self._upper = QSplitter(Qt.Orientation.Horizontal)
        self._upper.addWidget(launches)
        self._upper.setChildrenCollapsible(False)
        split = self._split = QSplitter(Qt.Orientation.Vertical)
        split.addWidget(self._upper)
        self.pair = KernelPair()
        self._lower = QStackedWidget()
        self._lower.addWidget(self.details)
        self._lower.addWidget(self.pair)
        split.addWidget(self._lower)
        split.setStretchFactor(0, 2)
        split.setStretchFactor(1, 3)
        split.setSizes([320, 420])
        split.setChildrenCollapsible(False)
        fill(vertical(self, NO_MARGINS), split)
        self.table.chosen.connect(lambda row: self._show_launch(self._kernel_of(row)))
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._show_pair())
        document.trace_changed.connect(self._on_trace)
        document.finding_changed.connect(self._on_finding)
        document.diagnosis_changed.connect(lambda diagnosis: self._show_first(diagnosis.findings))
        self._on_trace(document.trace)

    def _on_trace(self, trace: Trace | None) -> None:
        if trace is None or not trace.kernels or len(trace.events):
            return

        def work(progress: object) -> pd.DataFrame:
            from viewer.statistics.kernel_report import launch_table

            return launch_table(trace)

        def show(frame: pd.DataFrame) -> None:
            if trace is self._document.trace:
                self._launches = frame
                self._show_rows()
                self._show_first(self._document.diagnosis.findings if self._document.diagnosis else ())

        self._document.jobs.ask("kernel report", work, show)
        self._show_roofline(trace)

    def _show_roofline(self, trace: Trace) -> None:
        try:
            from viewer.panels.charts.roofline import RooflinePlot
        except ImportError:
            return
        if self.roofline is None:
            self.roofline = RooflinePlot()
            self.roofline.chosen.connect(self.select)
            self._upper.addWidget(self.roofline)
            self._upper.setStretchFactor(0, 1)
            self._upper.setStretchFactor(1, 1)
            width = max(self.width(), 1000)
            self._upper.setSizes([width * 58 // 100, width * 42 // 100])
        self.roofline.show_kernels(trace.kernels)
        self._fit_roofline()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_roofline()

    def _fit_roofline(self) -> None:
        """In a narrow window, and without a roofline, the names of the kernels get its room."""
        if self.roofline is not None:
            self.roofline.setVisible(self.roofline.is_measured and self.width() >= ROOM_FOR_ROOFLINE)
            self.lacking.setVisible(not self.roofline.is_measured)

    def _show_first(self, findings: tuple[Finding, ...]) -> None:
        trace = self._document.trace
        if trace is None or not trace.kernels or self.table.rows.frame is None:
            return
        named = [finding.kernel for finding in findings if finding.kernel is not None]
        ids = [kernel.id for kernel in trace.kernels]
        self.select(next((ids.index(name) for name in named if name in ids), 0))
        bar, (upper, lower) = self.table.verticalScrollBar(), self._split.sizes()
        if 0 < bar.value() < self.table.rowHeight(0):  # rather a little more room than a row that is cut
            self._split.setSizes([upper + bar.value(), lower - bar.value()])
            bar.setValue(0)

    def _on_finding(self, finding: Finding | None) -> None:
        trace = self._document.trace
        if finding is not None and finding.kernel is not None and trace is not None and trace.kernels:
            ids = [kernel.id for kernel in trace.kernels]
            if finding.kernel in ids:
                self.select(ids.index(finding.kernel))

    def _show_rows(self) -> None:
        from viewer.statistics.kernel_report import launches_by_kernel

        if self._launches is not None:
            self.table.set_frame(
                launches_by_kernel(self._launches) if self.grouped.isChecked() else self._launches
            )

    def _kernel_of(self, row: int) -> int:
        """The launch behind a row of the frame; -1 for none."""
        frame = self.table.rows.frame
        return int(frame["kernel"].iloc[row]) if frame is not None and 0 <= row < len(frame) else -1

    def select(self, index: int) -> None:
        frame, launches = self.table.rows.frame, self._launches
        if frame is None or launches is None:
            return
        wanted = launches.loc[index, ["name", "grid", "block"]]
        rows = frame.index[
            (frame["kernel"] == index) | (frame[["name", "grid", "block"]] == wanted).all(axis=1)
            if self.grouped.isChecked()
            else frame["kernel"] == index
        ]
        if len(rows):
            self.table.select_frame_row(int(rows[0]))
        self._show_launch(index)

    def _keep_baseline(self, kept: bool) -> None:
        kernel, trace = self.details.kernel, self._document.trace
        known = kept and kernel is not None and trace is not None
        self._kept = (
            trace.kernels.index(kernel) if known and trace is not None and kernel is not None else None
        )
        self._show_pair()

    def _show_pair(self) -> None:
        """Two selected rows stand side by side, and so does one and the baseline; else the details of one."""
        trace = self._document.trace
        if trace is None or len(trace.events):
            return
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        chosen = [self._kernel_of(self.table.rows.frame_row(row)) for row in rows]
        if self._kept is not None and len(chosen) == 1 and chosen[0] != self._kept:
            chosen = [self._kept, *chosen]
        two = len(chosen) == 2
        self._lower.setCurrentWidget(self.pair if two else self.details)
        if two:
            self.pair.show_pair(*(trace.kernels[kernel] for kernel in chosen))

    def _show_launch(self, index: int) -> None:
        trace = self._document.trace
        if trace is not None and 0 <= index < len(trace.kernels):
            self.details.show_kernel(trace.kernels[index])
            if self.roofline is not None:
                self.roofline.mark(index)
