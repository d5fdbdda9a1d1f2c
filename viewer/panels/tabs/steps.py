"""The tabs of step times: every step of the recording, and the mean of runs that were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QComboBox

from parsers.model import TraceError
from parsers.model.late import dataclass
from viewer.appearance.widgets import ElidedLabel, fill, horizontal
from viewer.panels.charts.trend_chart import TrendChart, TrendPoint
from viewer.panels.panel import Panel, tab
from viewer.panels.table_panel import TablePanel
from viewer.panels.tables.table_model import Column, Show, described
from viewer.panels.tables.table_view import TableView
from viewer.tables.rows.found import Steps

if TYPE_CHECKING:
    import pandas as pd

    from rules.analysis.analysis import Analysis
    from rules.gates.figures import RunFigures
    from viewer.query.explained import Behind
    from viewer.user_data.history import Entry

MAX_POINTS = 60  # the latest
OPEN = "this recording"
RUNS = (
    Column("run", "Run", stretch=True),
    Column("step", "Step, mean", Show.TIME, "The mean steady step of the run, as recorded"),
    Column(
        "first",
        "Of the first",
        Show.FIGURE,
        "Its step time as a share of that of the first run",
        order="step",
    ),
    Column("before", "Against the one before"),
    Column("note", "Why it was accepted", sparse=True),
)


@dataclass(frozen=True, slots=True)
class _Trend:
    """What one name shows; ``frame`` has the rows of the table."""

    names: list[str]
    name: str
    points: list[TrendPoint]
    frame: pd.DataFrame | None
    problem: str = ""


@tab
class TrendPanel(Panel):
    """Chosen by itself is the name whose last run did the same work as the open recording."""

    title = "Trend"
    lacks = "This is the first recording of the program. The next one is compared with it."
    order = 105

    def build(self) -> None:
        self.names = QComboBox()
        self.names.setAccessibleName("Baseline or program")
        self.names.activated.connect(lambda _: self.refresh())
        self.about = ElidedLabel("", "secondary", pixels=12)
        row = fill(horizontal(margins=(10, 6, 10, 6), spacing=10), self.names, (self.about, 1))
        self.chart = TrendChart()
        self.table = TableView(RUNS, "Trend")
        self.tables = (self.table,)
        side_by_side = fill(horizontal(spacing=0), (self.chart, 1), (self.table, 1))
        self.column.addLayout(row)
        self.column.addLayout(side_by_side, 1)
        self.document.trace_changed.connect(lambda _: self.names.clear())

    def has_data(self) -> bool:
        from viewer.user_data.history import History

        trace = self.document.trace
        return trace is not None and len(trace.gpu_operations) > 0 and History().path.exists()

    def refresh(self) -> None:
        wanted = self.names.currentText()
        self.compute_of(self.document.analysis, lambda analysis: _trend(analysis, wanted), self._show)

    def _show(self, trend: _Trend) -> None:
        self.names.clear()
        self.names.addItems(trend.names)
        self.names.setCurrentText(trend.name)
        self.names.setVisible(bool(trend.names))
        self.about.setText(
            trend.problem or f"{len(trend.points)} runs; a line is the interval of its mean step"
        )
        self.chart.show_points(trend.points)
        if trend.frame is not None:
            self.table.set_frame(trend.frame)


def _trend(analysis: Analysis, wanted: str) -> _Trend:
    import pandas as pd

    from rules.gates.figures import figures_of
    from viewer.reports.series_report import SIGNS, Point, against, bounds, points_of, spans
    from viewer.user_data.history import History, Series, names_of

    history = History()
    try:
        entries = [each for series in Series for each in history.entries(series)]
    except TraceError as error:
        return _Trend([], "", [], None, str(error))
    names = names_of(entries)
    if not names:
        return _Trend([], "", [], None, "Nothing is saved yet: use `stallscope baseline save NAME RUN`")
    figures = figures_of(analysis)
    name = wanted if wanted in names else _of_the_same_program(entries, names, figures)
    mine = [each for each in entries if each.name == name][-MAX_POINTS:]
    points = points_of(mine)
    if not any(set(run.files) == set(figures.files) for each in mine for run in each.runs):
        points = [*points, Point(OPEN, (figures,))]
    shown = [
        TrendPoint(each.name, each.step_ns, *span, each.note, each.name == OPEN)
        for each, span in zip(points, spans(points), strict=True)
        if each.step_ns
    ]
    rows = [
        (
            each.name,
            each.step_ns or float("nan"),
            bounds(against(points, number, 0)),
            SIGNS[against(points, number, number - 1).outcome] if number else "",
            each.note,
        )
        for number, each in enumerate(points)
    ]
    return _Trend(names, name, shown, pd.DataFrame(rows, columns=[column.key for column in RUNS]))


def _of_the_same_program(entries: list[Entry], names: list[str], figures: RunFigures) -> str:
    """The name whose newest run can be compared with the open one; the newest of all where there is none."""
    from rules.gates.against_kept import judgement_on

    for name in names:
        newest = [each for each in entries if each.name == name][-1]
        if not judgement_on(newest.runs, [figures]).reason:
            return name
    return names[0]


STEPS = (
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
class StepsPanel(TablePanel):
    """A row selects its step for the whole window."""

    title = "Steps"
    lacks = "No steps were found. Call profiler.step() after each of them, or put ranges around them."
    order = 50
    columns = STEPS

    def build(self) -> None:
        super().build()
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
        def work(analysis: Analysis) -> pd.DataFrame:
            from viewer.statistics.steps import step_table

            return step_table(analysis)

        self.compute_of(self.document.analysis, work, self.table.set_frame)
