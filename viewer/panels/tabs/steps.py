"""The steps tab: every step with its length, GPU use and what is odd about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show, described
from viewer.panels.tables.table_view import TableView
from viewer.tables.rows.found import Steps

if TYPE_CHECKING:
    import pandas as pd

    from viewer.query.explained import Behind

COLUMNS = (
    described(Steps, "name"),
    Column("rank", "Rank", sparse=True),
    Column("duration_ns", "Duration", Show.TIME, "As recorded, with what the profiler takes"),
    Column(
        "ratio",
        "Of median",
        Show.SHARE,
        "Its length, as a share of the median of the steady steps",
        width=180,
    ),
    described(Steps, "busy_share", width=180),
    described(Steps, "gpu_idle_ns"),
    described(Steps, "operations", Show.COUNT),
    Column("remark", "Remark", sparse=True),
)


@tab
class StepsPanel(Panel):
    """A row selects its step for the whole window."""

    title: ClassVar[str] = "Steps"
    lacks: ClassVar[str] = (
        "No steps were found. Call profiler.step() after each of them, or put ranges around them."
    )
    order: ClassVar[int] = 50

    def build(self) -> None:
        self.table = TableView(COLUMNS, "Steps")
        self.tables = (self.table,)
        self.column.addWidget(self.table)
        self.table.chosen.connect(self.document.select_step)
        self.document.step_changed.connect(self.table.select_frame_row)

    def has_data(self) -> bool:
        return len(self.document.steps) > 1

    def behind(self, table: TableView, row: int) -> Behind | None:
        from viewer.query.explained import Behind

        analysis = self.document.analysis
        if analysis is None:
            return None
        step = analysis.steps[row]
        start, end = step.start, step.end
        amounts = {"idle_ns": f"least(end_ns, {end}) - greatest(start_ns, {start})"}
        mine = "" if step.rank is None else f" AND (rank = {step.rank} OR rank IS NULL)"
        where = f"end_ns > {start} AND start_ns < {end}{mine}"
        return Behind(
            f"{step.name}, GPU idle", "gaps", where, amounts, ("event", "cause", "culprit", "start_ns")
        )

    def refresh(self) -> None:
        trace, analysis = self.document.trace, self.document.analysis
        if trace is None or analysis is None:
            return

        def work() -> pd.DataFrame:
            from viewer.statistics.steps import step_table

            return step_table(trace, analysis)

        self.compute(work, self.table.set_frame)
