"""The operators tab: CPU operators by name, with self and total time on the CPU and on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from parsers.model import EventKind
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Show, described
from viewer.panels.tables.table_view import TableView
from viewer.tables.summaries.cpu import OperatorSummary

if TYPE_CHECKING:
    import pandas as pd

    from viewer.query.explained import Behind

COLUMNS = (
    described(OperatorSummary, "name"),
    described(OperatorSummary, "calls", Show.COUNT),
    described(OperatorSummary, "cpu_self_ns"),
    described(OperatorSummary, "cpu_total_ns"),
    described(OperatorSummary, "gpu_self_ns", sparse=True),
    described(OperatorSummary, "gpu_total_ns", sparse=True),
    described(OperatorSummary, "launches", Show.COUNT, minor=True, sparse=True),
    described(OperatorSummary, "memory_self_bytes", sparse=True),
    described(OperatorSummary, "memory_total_bytes", sparse=True),
)


@tab
class OperatorsPanel(Panel):
    """Follows the selected area or step; a row selects the longest call on the timeline."""

    title: ClassVar[str] = "Operators"
    lacks: ClassVar[str] = "CPU operators were not recorded. The PyTorch profiler records them."
    order: ClassVar[int] = 30
    follows_step: ClassVar[bool] = True
    follows_area: ClassVar[bool] = True

    def build(self) -> None:
        self.table = TableView(COLUMNS, "Operators")
        self.tables = (self.table,)
        self.column.addWidget(self.table)
        self.table.chosen.connect(lambda row: self.select_event_of(self.table, row))
        self.document.event_changed.connect(self._mark)

    def has_data(self) -> bool:
        trace = self.document.trace
        return trace is not None and EventKind.CPU_OP in trace.kinds

    def refresh(self) -> None:
        trace = self.document.trace
        t0, t1 = self.span
        if trace is None:
            return

        def work() -> pd.DataFrame:
            from viewer.statistics.operators import operator_table, operator_times

            return operator_table(trace, operator_times(trace), t0, t1)

        self.compute(work, self.table.set_frame)

    def behind(self, table: TableView, row: int) -> Behind | None:
        from viewer.query.explained import Behind, quoted, starting_in

        frame = table.rows.frame
        if frame is None:
            return None
        name = frame["name"].iloc[row]
        of_outermost = {"duration_ns": "duration_ns", "gpu_ns": "gpu_ns", "launches": "launches"}
        amounts = {"self_ns": "self_ns", "gpu_self_ns": "gpu_self_ns"}
        amounts |= {key: f"CASE WHEN outermost THEN {sql} END" for key, sql in of_outermost.items()}
        return Behind(name, "operators", f"name = {quoted(name)} AND {starting_in(self.span)}", amounts)

    def _mark(self, event: int) -> None:
        frame, trace = self.table.rows.frame, self.document.trace
        if frame is None or trace is None or event < 0 or not len(frame):
            return
        found = (frame["name"] == trace.name(event)).to_numpy().nonzero()[0]
        self.table.select_frame_row(int(found[0]) if len(found) else -1)
