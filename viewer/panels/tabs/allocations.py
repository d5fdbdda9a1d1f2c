"""The allocations tab: what filled a GPU's memory over time, and what it held at the peak or any other moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QSplitter, QVBoxLayout, QWidget

from parsers.model.units import duration, size
from viewer.document import Document
from viewer.look import theme
from viewer.look.labels import ElidedLabel, Label
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

if TYPE_CHECKING:
    from rules.memory.summary import MemorySummary
    from viewer.panels.charts.memory_stack import MemoryStack
    from viewer.statistics.memory import MemoryRow, Stack

COLUMNS = (
    Column("what", "What"),
    Column("where", "Where it was made", width=150, sparse=True),
    Column("kind", "Kind", width=130, sparse=True, hint="What most of it is used for"),
    Column("blocks", "Blocks", Show.COUNT),
    Column("size", "Size", Show.SIZE),
    Column("share", "Share", Show.SHARE, "Of what was held at this moment", width=150),
)
BY_KIND, BY_LINE = "by kind", "by line of code"


@tab
class AllocationsPanel(Panel):
    """Needs a snapshot of the allocator; a click in the drawing moves the table to that moment."""

    title: ClassVar[str] = "Allocations"
    order: ClassVar[int] = 82
    follows_step: ClassVar[bool] = False

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(document, parent)
        self._about = ElidedLabel("", "secondary", pixels=12)
        self.gpu = QComboBox()
        self.gpu.setAccessibleName("GPU")
        self.grouping = QComboBox()
        self.grouping.setAccessibleName("How to group")
        self.grouping.addItems([BY_KIND, BY_LINE])
        self.to_peak = QPushButton("At the peak")
        self._said = ""
        self.table = TableView(COLUMNS, "Allocations")
        self.tables = (self.table,)
        self.legend = QHBoxLayout()
        self.legend.setContentsMargins(14, 0, 10, 0)
        self.legend.setSpacing(14)
        head = QHBoxLayout()
        head.setContentsMargins(14, 5, 10, 2)
        head.setSpacing(8)
        head.addWidget(self._about, 1)
        for each in (self.to_peak, self.gpu, self.grouping):
            head.addWidget(each)
        self._room = QVBoxLayout()
        self._room.setContentsMargins(0, 0, 0, 0)
        left = QWidget()
        left.setLayout(self._room)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(left)
        split.addWidget(self.table)
        split.setSizes([520, 480])
        split.setChildrenCollapsible(False)
        self.column.addLayout(head)
        self.column.addLayout(self.legend)
        self.column.addWidget(split, 1)
        self.drawing: MemoryStack | None = None
        self._summaries: tuple[MemorySummary, ...] = ()
        self._when = 0
        self.gpu.activated.connect(lambda _: self._show_gpu())
        self.grouping.currentIndexChanged.connect(lambda _: self._fill_table())
        self.to_peak.clicked.connect(lambda: self.go_to(self._summary.peak_at if self._summary else 0))
        theme.changed.connect(self.invalidate)

    def has_data(self) -> bool:
        trace = self.document.trace
        return trace is not None and bool(trace.memory) and self.document.analysis is not None

    @property
    def _summary(self) -> MemorySummary | None:
        place = max(self.gpu.currentIndex(), 0)
        return self._summaries[place] if place < len(self._summaries) else None

    def refresh(self) -> None:
        analysis = self.document.analysis
        if analysis is None:
            return

        def work() -> tuple[MemorySummary, ...]:
            from rules.memory.summary import memory_of

            return tuple(each for each in memory_of(analysis) if each.account is not None)

        self.compute(work, self._take)

    def _take(self, summaries: tuple[MemorySummary, ...]) -> None:
        trace = self.document.trace
        if trace is None:
            return
        self._summaries = summaries
        devices = [trace.devices[each.device] for each in summaries]
        names = [
            f"GPU {each.id}" if each.rank is None else f"GPU {each.id}, rank {each.rank}" for each in devices
        ]
        if [self.gpu.itemText(place) for place in range(self.gpu.count())] != names:
            self.gpu.clear()
            self.gpu.addItems(names)
        self.gpu.setVisible(len(names) > 1)
        self._show_gpu()

    def _show_gpu(self) -> None:
        summary = self._summary
        if summary is None or summary.account is None:
            return
        account = summary.account

        def work() -> Stack:
            from viewer.statistics.memory import stack_of

            return stack_of(account)

        self.compute(work, lambda stack: self._draw(summary, stack))

    def _draw(self, summary: MemorySummary, stack: Stack) -> None:
        from rules.wording.memory import peak_sentence
        from viewer.panels.charts.memory_stack import MemoryStack, color_of

        if self.drawing is None:
            self.drawing = MemoryStack()
            self.drawing.moment_chosen.connect(self.go_to)
            self._room.addWidget(self.drawing)
        growth = summary.growth.per_step
        grows = f" Each step leaves {size(growth)} more." if growth else ""
        self._said = f"{peak_sentence(summary)}, at {duration(summary.peak_at)}.{grows}"
        failed = [each.failure.time for each in summary.shortages]
        self.drawing.show_stack(stack, self._reserved(summary.device), failed)
        while self.legend.count():
            item = self.legend.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.deleteLater()
        for kind in stack.held:
            entry = Label(kind.value, "secondary", pixels=12)
            swatch = Label("■", pixels=12)
            swatch.setStyleSheet(f"color: {color_of(kind, theme.current()).name()};")
            self.legend.addWidget(swatch)
            self.legend.addWidget(entry)
        self.legend.addStretch(1)
        self.go_to(summary.peak_at)

    def _reserved(self, device: int) -> tuple[np.ndarray, np.ndarray] | None:
        trace = self.document.trace
        counters = trace.counters if trace is not None else ()
        found = next(
            (each for each in counters if each.device == device and each.name.endswith("reserved memory")),
            None,
        )
        return None if found is None or not len(found.time) else (found.time, found.value)

    def go_to(self, when: int) -> None:
        """Let the table speak of another moment (ns)."""
        self._when = when
        if self.drawing is not None:
            self.drawing.mark(when)
        self._fill_table()

    def _fill_table(self) -> None:
        summary = self._summary
        if summary is None or summary.account is None:
            return
        account, when, by_line = summary.account, self._when, self.grouping.currentText() == BY_LINE

        def work() -> list[MemoryRow]:
            from viewer.statistics.memory import rows_at

            return rows_at(account, when, by_line=by_line)

        self.compute(work, self._show_rows)

    def _show_rows(self, rows: list[MemoryRow]) -> None:
        import pandas as pd

        whole = sum(row.size for row in rows)
        by_line = self.grouping.currentText() == BY_LINE
        self._about.setText(f"{self._said} In the table: {size(whole)} at {duration(self._when)}.")
        table = [
            (
                row.what,
                row.where,
                row.kind.value if by_line else "",
                row.blocks,
                row.size,
                row.size / max(whole, 1),
            )
            for row in rows
        ]
        self.table.set_frame(
            pd.DataFrame(table, columns=["what", "where", "kind", "blocks", "size", "share"])
        )
