"""The tab of roofs: time by operator and shape, and how much of what the GPU can do each reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from PySide6.QtWidgets import QWidget

from parsers.model import Attribute
from viewer.document import Document
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    Column("short", "Operator", stretch=True, whole="name"),
    Column("shapes", "Shapes", hint="Of its first two inputs"),
    Column("type", "Type"),
    Column("calls", "Calls", Show.COUNT),
    Column("total", "GPU time", Show.TIME, "Of the kernels that it launched itself"),
    Column("mean", "Each", Show.TIME, minor=True),
    Column("share", "Share", Show.SHARE, "Of the time of all kernels"),
    Column(
        "moved",
        "Moves",
        Show.RATE,
        "Bytes a second at least: every input and output once",
        minor=True,
        sparse=True,
    ),
    Column(
        "reaches",
        "Reaches",
        Show.SHARE,
        "Of its roof: what the GPU's memory or arithmetic units would do at most. What seems to be more comes from a "
        "cache, or from an algorithm with fewer operations",
    ),
    Column("roof", "Roof", hint="What limits it first"),
)


@tab
class RoofsPanel(Panel):
    """Follows the selected area or step; a row selects the longest call on the timeline."""

    title: ClassVar[str] = "Roofs"
    lacks: ClassVar[str] = "Shapes were not recorded. Record with record_shapes=True."
    order: ClassVar[int] = 32
    follows_step: ClassVar[bool] = True
    follows_area: ClassVar[bool] = True

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(document, parent)
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
            return table.assign(short=[name.removeprefix("aten::") for name in table["name"]])

        self.compute(work, self.table.set_frame)
