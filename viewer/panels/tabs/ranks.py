"""The tabs of ranks and collectives: what each rank did and waited for, and the size and bandwidth of each kind."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QWidget

from rules.analysis.ranks.recorded import ranks_of
from viewer.appearance.widgets import Label, fill, vertical
from viewer.panels.panel import tab
from viewer.panels.ranks.heat import Cell, RankHeat
from viewer.panels.table_panel import TablePanel
from viewer.panels.tables.table_model import Show, described
from viewer.statistics.rank_map import Measure, Order
from viewer.statistics.ranks import RankTables, rank_tables
from viewer.tables.summaries.gpu import CollectiveSummary, RankSummary

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from viewer.panels.tables.table_view import TableView
    from viewer.query.explained import Behind

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


class _OfManyGpus(TablePanel):
    """What concerns several GPUs of one run."""

    says_whole_run = True

    def has_data(self) -> bool:
        analysis = self.document.analysis
        return analysis is not None and len(analysis.active_devices) > 1

    def refresh(self) -> None:
        def work(analysis: Analysis) -> RankTables:

            return rank_tables(analysis)

        self.compute_of(self.document.analysis, work, self.show_tables)

    @abstractmethod
    def show_tables(self, tables: RankTables) -> None:
        """Show what was found of the open recording."""


@tab
class CollectivesPanel(_OfManyGpus):
    """Every kind of collective with its size, waiting and bandwidth."""

    title = "Collectives"
    lacks = "One GPU has no collectives. Record every rank and open all files together."
    order = 70
    columns = COLLECTIVES

    def has_data(self) -> bool:
        trace = self.document.trace
        return super().has_data() and trace is not None and len(trace.collective_kernels) > 0

    def behind(self, table: TableView, row: int) -> Behind | None:
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

    def show_tables(self, tables: RankTables) -> None:
        self.table.set_frame(tables.collectives)


RANKS = (
    described(RankSummary, "name"),
    described(RankSummary, "busy_share", width=130),
    described(RankSummary, "compute_ns", minor=True),
    described(RankSummary, "exposed_communication_ns", minor=True),
    described(RankSummary, "waiting_ns"),
    described(RankSummary, "makes_wait_ns"),
    described(RankSummary, "late_ns"),
    described(RankSummary, "last_share", width=110, minor=True),
    described(RankSummary, "idle_ns", minor=True),
)


@tab
class RanksPanel(_OfManyGpus):
    """A row shows the rank's exposed communication on the timeline."""

    title = "Ranks"
    lacks = "One GPU has no ranks. Record every rank and open all files together."
    order = 60
    columns = RANKS

    def build(self) -> None:
        super().build()
        self.heat = RankHeat()
        self.heat.selected.connect(self._choose_step)
        waiting = QWidget()
        fill(vertical(waiting), Label("Exposed wait in collectives, by step", "secondary"), (self.heat, 1))
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(self.table)
        split.addWidget(waiting)
        split.setStretchFactor(0, 5)
        split.setStretchFactor(1, 3)
        split.setSizes([650, 380])
        split.setChildrenCollapsible(False)
        self.column.addWidget(split)
        self.table.chosen.connect(self._select)
        self._waiting = waiting
        self._step_names: tuple[str, ...] = ()

    def show_tables(self, tables: RankTables) -> None:
        self.table.set_frame(tables.ranks)
        self._step_names = tables.step_names
        known = Measure.WAIT in tables.map.measures
        self.heat.show_map(tables.map if known else None)
        self.heat.show_measure(Measure.WAIT, Order.RANK)
        self._waiting.setVisible(known)

    def behind(self, table: TableView, row: int) -> Behind | None:
        from viewer.query.explained import device_behind

        frame, analysis = table.rows.frame, self.document.analysis
        if frame is None or analysis is None:
            return None
        return device_behind(analysis, int(frame["device"].iloc[row]))

    def _choose_step(self, cell: Cell | None) -> None:
        """Select this step of this rank, and go to where it waited for others."""

        analysis = self.document.analysis
        if cell is None or analysis is None:
            return
        rank = ranks_of(analysis).run.rows[cell.row].rank
        name = self._step_names[cell.step]
        steps = enumerate(self.document.steps)
        step = next((index for index, each in steps if each.name == name and each.rank == rank), -1)
        if step >= 0:
            self.document.select_step(step)
            device = ranks_of(analysis).run.device(cell.row)
            self.table.select_first("device", device)
            self._show_waiting(device, self.document.steps[step].start, self.document.steps[step].end)

    def _select(self, row: int) -> None:
        frame = self.table.rows.frame
        if frame is not None:
            self._show_waiting(int(frame["device"].iloc[row]), *self.document.window)

    def _show_waiting(self, device: int, t0: int, t1: int) -> None:
        from viewer.statistics.budget_intervals import places_of

        analysis = self.document.analysis
        if analysis is not None:
            self.document.show_evidence(
                places_of(analysis, device, "communication", "exposed communication", t0, t1)
            )
