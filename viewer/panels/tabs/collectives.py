"""The collectives tab: every kind of collective with its size, waiting and bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Show, described
from viewer.panels.tables.table_view import TableView
from viewer.tables.summaries.gpu import CollectiveSummary

if TYPE_CHECKING:
    from viewer.query.explained import Behind
    from viewer.statistics.ranks import RankTables

COLLECTIVES = (
    described(CollectiveSummary, "collective"),
    described(CollectiveSummary, "process_group"),
    described(CollectiveSummary, "message_bytes"),
    described(CollectiveSummary, "calls", Show.COUNT),
    described(CollectiveSummary, "ranks", Show.COUNT, minor=True),
    described(CollectiveSummary, "transfer_ns"),
    described(CollectiveSummary, "waiting_ns"),
    described(CollectiveSummary, "algorithm_bytes_per_s", minor=True),
    described(CollectiveSummary, "bus_bytes_per_s"),
    described(CollectiveSummary, "measured_bus_bytes_per_s", sparse=True),
)


@tab
class CollectivesPanel(Panel):
    """Every kind of collective with its size, waiting and bandwidth."""

    title: ClassVar[str] = "Collectives"
    lacks: ClassVar[str] = "One GPU has no collectives. Record every rank and open all files together."
    order: ClassVar[int] = 70
    says_whole_run: ClassVar[bool] = True

    def build(self) -> None:
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

    def behind(self, table: TableView, row: int) -> Behind | None:
        from rules.analysis.ranks.recorded import ranks_of
        from viewer.query.explained import Behind, quoted, starting_in

        frame, analysis = table.rows.frame, self.document.analysis
        if frame is None or analysis is None:
            return None
        line = frame.iloc[row]
        ranks = max(len(ranks_of(analysis).run.meetings.with_collectives), 1)
        where = (
            f"collective = {quoted(line['collective'])} AND process_group = {quoted(line['process_group'])} "
            f"AND message_bytes = {line['message_bytes']} AND instance IS NOT NULL AND {starting_in(analysis.window)}"
        )
        amounts = {"transfer_ns": "transfer_ns", "waiting_ns": f"exposed_waiting_ns / {ranks}"}
        named = ("event", "rank", "instance", "waits_for", "start_ns")
        return Behind(
            f"{line['collective']}, waiting as a mean over ranks", "collectives", where, amounts, named
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
