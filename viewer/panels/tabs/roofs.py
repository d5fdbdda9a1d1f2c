"""The tab of roofs: time by operator and shape, and how much of what the GPU can do each reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from parsers.model import Attribute
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show, described
from viewer.panels.tables.table_view import TableView
from viewer.tables.summaries.gpu import OperatorRoofs

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    Column("short_name", "Operator", stretch=True, whole="name"),
    described(OperatorRoofs, "input_shapes"),
    described(OperatorRoofs, "input_type"),
    described(OperatorRoofs, "calls", Show.COUNT),
    described(OperatorRoofs, "total_ns", title="GPU time"),
    described(OperatorRoofs, "mean_ns", minor=True),
    described(OperatorRoofs, "gpu_time_share", short="Share"),
    described(OperatorRoofs, "moved_bytes_per_s", minor=True, sparse=True),
    described(OperatorRoofs, "roof_share"),
    described(OperatorRoofs, "roof"),
)


@tab
class RoofsPanel(Panel):
    """Follows the selected area or step; a row selects the longest call on the timeline."""

    title: ClassVar[str] = "Roofs"
    lacks: ClassVar[str] = "Shapes were not recorded. Record with record_shapes=True."
    order: ClassVar[int] = 32
    follows_step: ClassVar[bool] = True
    follows_area: ClassVar[bool] = True

    def build(self) -> None:
        self.table = TableView(COLUMNS, "Roofs")
        self.tables = (self.table,)
        self.column.addWidget(self.table)
        self.table.chosen.connect(lambda row: self.select_event_of(self.table, row))

    def has_data(self) -> bool:
        trace = self.document.trace
        return (
            trace is not None and Attribute.INPUT_DIMS in trace.attributes and len(trace.links.operation) > 0
        )

    def refresh(self) -> None:
        trace = self.document.trace
        t0, t1 = self.span
        if trace is None:
            return

        def work() -> pd.DataFrame:
            from viewer.statistics.operator_roofs import roof_table

            table = roof_table(trace, t0, t1)
            return table.assign(short_name=[name.removeprefix("aten::") for name in table["name"]])

        self.compute(work, self.table.set_frame)
