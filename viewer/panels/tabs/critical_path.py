"""The critical path tab: what the chain that decided the time of a step is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.findings.base import Evidence
from viewer.panels.panel import tab
from viewer.panels.table_panel import TablePanel
from viewer.panels.tables.table_model import Column, Show

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from rules.replay.critical_path import CriticalPath
    from viewer.panels.tables.table_view import TableView
    from viewer.query.explained import Behind
    from viewer.statistics.what_if import PathRow

COLUMNS = (
    Column("name", "Segment"),
    Column("pieces", "Segments per step", Show.NUMBER, "How often it occurs on the path in one step"),
    Column("time", "Time per step", Show.TIME, "In one step, as recorded"),
    Column(
        "share",
        "Share of a recorded step",
        Show.SHARE,
        "Share of the path, which is as long as the step",
        short="Share",
    ),
)


@tab
class CriticalPathPanel(TablePanel):
    """A row shows the longest piece of its kind on the timeline."""

    title = "Critical path"
    lacks = "Launches are not linked to their kernels. Record API calls and GPU work together."
    order = 55
    columns = COLUMNS

    def build(self) -> None:
        super().build()
        self._path: CriticalPath | None = None
        self._rows: list[PathRow] = []
        self.table.chosen.connect(self._select)
        self.document.plan_changed.connect(self.invalidate)

    def has_data(self) -> bool:
        plan = self.document.plan
        return plan is not None and not plan.reason

    def refresh(self) -> None:
        def work(analysis: Analysis) -> tuple[CriticalPath, list[PathRow]]:
            from rules.replay.critical_path import critical_path_of
            from viewer.statistics.what_if import path_rows

            path = critical_path_of(analysis)
            return path, path_rows(analysis, path)

        self.compute_of(self.document.analysis, work, self._show)

    def _show(self, found: tuple[CriticalPath, list[PathRow]]) -> None:
        import pandas as pd

        self._path, self._rows = found
        whole, steps = sum(row.ns for row in self._rows) or 1.0, max(self._path.steps, 1)
        rows = [(row.name, row.pieces / steps, row.ns, row.ns / whole) for row in self._rows]
        self.table.set_frame(pd.DataFrame(rows, columns=[column.key for column in COLUMNS]))

    def behind(self, table: TableView, row: int) -> Behind | None:
        from viewer.query.explained import Behind, quoted

        if self._path is None:
            return None
        name = self._rows[row].name
        amounts = {"duration_ns": "duration_ns", "a_step_ns": f"duration_ns / {max(self._path.steps, 1)}"}
        return Behind(name, "critical_path", f"segment = {quoted(name)}", amounts, ("event", "start_ns"))

    def _select(self, row: int) -> None:
        path = self._path
        if path is None:
            return
        piece = self._rows[row].longest
        self.document.show_evidence(
            [
                Evidence(
                    int(path.lane[piece]), int(path.start[piece]), int(path.end[piece]), self._rows[row].name
                )
            ]
        )
