"""The tabs of operators: by name with self and total time, and by shape with how much of the roof each reaches."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from parsers.model import Attribute, EventKind, Trace
from viewer.panels.panel import tab
from viewer.panels.table_panel import TablePanel
from viewer.panels.tables.table_model import Column, Show, described
from viewer.tables.summaries.cpu import OperatorSummary
from viewer.tables.summaries.gpu import OperatorRoofs

if TYPE_CHECKING:
    import pandas as pd

    from viewer.panels.tables.table_view import TableView
    from viewer.query.explained import Behind

ROOFS = (
    Column("short_name", "Operator", stretch=True, whole="name"),
    described(OperatorRoofs, "input_shapes"),
    described(OperatorRoofs, "input_type", minor=True),
    described(OperatorRoofs, "calls", Show.COUNT),
    described(OperatorRoofs, "total_ns", title="GPU time"),
    described(OperatorRoofs, "mean_ns", minor=True),
    described(OperatorRoofs, "gpu_time_share", short="Share", minor=True),
    described(OperatorRoofs, "moved_bytes_per_s", minor=True, sparse=True),
    described(OperatorRoofs, "roof_share"),
    described(OperatorRoofs, "roof"),
)


class _ByOperator(TablePanel):
    """Follows the selected area or step; a row selects the longest call on the timeline."""

    follows_step = True
    follows_area = True

    def build(self) -> None:
        super().build()
        self.table.chosen.connect(lambda row: self.select_event_of(self.table, row))

    @abstractmethod
    def frame(self, trace: Trace, t0: int, t1: int) -> pd.DataFrame:
        """The rows for [t0, t1), ns; off the GUI thread."""

    def refresh(self) -> None:
        span = self.span
        self.compute_of(self.document.trace, lambda trace: self.frame(trace, *span), self.table.set_frame)


@tab
class RoofsPanel(_ByOperator):
    """By shape, with how much of the roof each reaches."""

    title = "Roofs"
    lacks = "Shapes were not recorded. Record with record_shapes=True."
    order = 32
    columns = ROOFS

    def has_data(self) -> bool:
        trace = self.document.trace
        return (
            trace is not None and Attribute.INPUT_DIMS in trace.attributes and len(trace.links.operation) > 0
        )

    def behind(self, table: TableView, row: int) -> Behind | None:
        from viewer.query.explained import Behind, quoted, starting_in

        frame, trace = table.rows.frame, self.document.trace
        if frame is None or trace is None:
            return None
        event = int(frame["event"].iloc[row])
        recorded = {
            "input_shapes": trace.text_attribute(Attribute.INPUT_DIMS, event),
            "input_types": trace.text_attribute(Attribute.INPUT_TYPES, event),
        }
        alike = " AND ".join(
            f"{name} = {quoted(text)}" if text else f"{name} IS NULL" for name, text in recorded.items()
        )
        calls = f"SELECT event FROM operators WHERE name = {quoted(trace.name(event))} AND {alike}"
        where = f"operator IN ({calls}) AND {starting_in(self.span)}"
        return Behind(
            frame["short_name"].iloc[row], "kernels", where, named=("event", "short_name", "start_ns")
        )

    def frame(self, trace: Trace, t0: int, t1: int) -> pd.DataFrame:
        from viewer.statistics.operator_roofs import roof_table

        table = roof_table(trace, t0, t1)
        return table.assign(short_name=[name.removeprefix("aten::") for name in table["name"]])


OPERATORS = (
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
class OperatorsPanel(_ByOperator):
    """By name, with self and total time."""

    title = "Operators"
    lacks = "CPU operators were not recorded. The PyTorch profiler records them."
    order = 30
    columns = OPERATORS

    def build(self) -> None:
        super().build()
        self.document.event_changed.connect(lambda event: self.mark_name_of(self.table, event))

    def has_data(self) -> bool:
        trace = self.document.trace
        return trace is not None and EventKind.CPU_OP in trace.kinds

    def frame(self, trace: Trace, t0: int, t1: int) -> pd.DataFrame:
        from viewer.statistics.operators import operator_table, operator_times

        return operator_table(trace, operator_times(trace), t0, t1)

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
