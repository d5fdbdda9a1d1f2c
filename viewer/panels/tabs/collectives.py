"""The collectives tab: every kind of collective with its size, waiting and bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from PySide6.QtWidgets import QWidget

from viewer.document import Document
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

if TYPE_CHECKING:
    from viewer.statistics.ranks import RankTables

COLLECTIVES = (
    Column("collective", "Collective"),
    Column("group", "Group"),
    Column("bytes", "Size", Show.SIZE, "Bytes that one rank contributes"),
    Column("count", "Count", Show.COUNT),
    Column("ranks", "Ranks", Show.COUNT, minor=True),
    Column(
        "transfer_ns", "Transfer", Show.TIME, "Median of the shortest participants: about the transfer itself"
    ),
    Column("waiting_ns", "Waiting", Show.TIME, "Mean over the ranks, all instances together"),
    Column("algorithm_bandwidth", "Algorithm", Show.RATE, "Bytes of the message a second", minor=True),
    Column(
        "bus_bandwidth",
        "Bus",
        Show.RATE,
        "What each link carries: that bandwidth times the algorithm's factor",
    ),
    Column(
        "measured", "Measured", Show.RATE, "What nccl-tests reached on each link at this size", sparse=True
    ),
)


@tab
class CollectivesPanel(Panel):
    """Every kind of collective with its size, waiting and bandwidth."""

    title: ClassVar[str] = "Collectives"
    lacks: ClassVar[str] = "One GPU has no collectives. Record every rank and open all files together."
    order: ClassVar[int] = 70

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(document, parent)
        self.table = TableView(COLLECTIVES, "Collectives")
        self.tables = (self.table,)
        self.column.addWidget(self.table)

    def has_data(self) -> bool:
        trace, analysis = self.document.trace, self.document.analysis
        return (
            trace is not None
            and analysis is not None
            and len(analysis.active_devices) > 1
            and len(trace.collective_kernels) > 0
        )

    def refresh(self) -> None:
        trace, analysis = self.document.trace, self.document.analysis
        if trace is None or analysis is None:
            return

        def work() -> RankTables:
            from viewer.statistics.ranks import rank_tables

            return rank_tables(trace, analysis)

        self.compute(work, self._show)

    def _show(self, tables: RankTables) -> None:
        self.table.set_frame(tables.collectives)
