"""The serving tab: latencies of requests against the allowed times, and what each kind of engine step takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QLocale, QSignalBlocker, Qt
from PySide6.QtGui import QColor, QDoubleValidator, QFont, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QWidget,
)

from parsers.model import F64, I64, Progress, Trace
from parsers.model.results import REQUEST_LOG
from parsers.model.units import NS_PER_MS, capital, duration, percent, three_digits
from rules.analysis.inference.capacity import capacity_of
from rules.analysis.inference.engine_steps import engine_steps
from rules.analysis.inference.requests import AllowedTimes, Lateness, RequestSource
from rules.analysis.names.serving_steps import StepKind
from viewer.appearance import theme
from viewer.appearance.widgets import SPRING, Label, fill, horizontal, scrolling, vertical
from viewer.documents.document import Document, Stage
from viewer.panels.charts.capacity_chart import Batch, CapacityChart
from viewer.panels.charts.latencies import LatencyCharts
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

if TYPE_CHECKING:
    from rules.analysis.inference.engine_costs import EngineCosts
    from rules.analysis.inference.serving import Percentiles
    from viewer.appearance.theme import Theme
    from viewer.statistics.serving import ServingTables
    from viewer.timeline.geometry.derived import Derived


def _phase_colors(theme: Theme) -> list[QColor]:
    from viewer.statistics.serving_lanes import phase_colors

    return phase_colors(theme)


STEPS = (
    Column("name", "Engine steps"),
    Column("count", "Count", Show.COUNT, "Engine steps of this sort in the whole recording"),
    Column("p50", "p50", Show.TIME, "Half of these steps take at most this long, as recorded"),
    Column("p90", "p90", Show.TIME, "Nine of ten take at most this long", minor=True),
    Column("p99", "p99", Show.TIME, "99 of a hundred take at most this long"),
    Column(
        "rate",
        "Tokens/s",
        Show.NUMBER,
        "Of prompts for prefill; batch size over the median time for decode steps",
    ),
    Column("share", "Share", Show.SHARE, "Share of the time of all engine steps", width=150, minor=True),
    Column(
        "between",
        "Before it",
        Show.TIME,
        "Median time since the end of the step before: the engine's work on the CPU between steps, "
        "or its waiting for requests",
        minor=True,
    ),
    Column("remark", "Remark", sparse=True, minor=True),
)
REQUESTS = (
    Column("name", "Request"),
    Column("arrival", "Arrived", Show.TIME, "Since the first request"),
    Column("waits", "Waited", Show.TIME, "Until a step computed anything of it", sparse=True, minor=True),
    Column("ttft", "TTFT", Show.TIME, "Time to first token", tone="late_ttft"),
    Column("tpot", "TPOT", Show.TIME, "Time per output token after the first", tone="late_tpot"),
    Column("whole", "Whole", Show.TIME, "From its arrival to its last token"),
    Column(
        "held", "Held up", Show.TIME, "Time in which steps computed only the prompts of others", sparse=True
    ),
    Column("prompt", "Tokens in", Show.COUNT, "Tokens of the prompt", sparse=True),
    Column("out", "Out", Show.COUNT, "Tokens that were written"),
    Column(
        "passed",
        "Where its time went",
        Show.PARTS,
        "Waiting, its prompt, its answer, and held up: in the colours of the lane",
        sparse=True,
        minor=True,
        parts=("waits", "prefill", "decode", "held_up"),
        hues=_phase_colors,
    ),
)
PAGES = ("Engine steps", "Requests", "Latencies", "Capacity")
MAX_ALLOWED_MS = 1e6
SIDE_WIDTH = 326
FIGURES = ("p50", "p90", "p99")


class _Latency:
    """One row of the side: three percentiles of a latency and the field for its allowed time."""

    def __init__(
        self, name: str, meaning: str, grid: QGridLayout, row: int, walk: Callable[[float], None]
    ) -> None:
        self.title = Label(name)
        self.title.setToolTip(meaning)
        self.figures = [QPushButton() for _ in FIGURES]
        for place, (figure, figured) in enumerate(zip(self.figures, FIGURES, strict=True)):
            figure.setFlat(True)
            figure.setProperty("link", "bare")
            figure.setFont(theme.font(theme.SECONDARY_PX + 1))
            figure.setAccessibleName(f"{figured} of the {meaning.lower()}")
            figure.setToolTip("Click to walk the requests that took longer")
            figure.clicked.connect(lambda _=False, place=place: walk(self._bound(place)))
        self.allowed = QLineEdit()
        numbers = QDoubleValidator(0.0, MAX_ALLOWED_MS, 3, self.allowed)
        numbers.setNotation(QDoubleValidator.Notation.StandardNotation)
        numbers.setLocale(QLocale(QLocale.Language.C))
        self.allowed.setValidator(numbers)
        self.allowed.setPlaceholderText("any")
        self.allowed.setFixedWidth(72)
        self.allowed.setAccessibleName(f"Allowed {meaning.lower()} in ms")
        self.allowed.setToolTip("Type the longest time that is allowed, in ms")
        for column, widget in enumerate((self.title, *self.figures, self.allowed)):
            grid.addWidget(widget, row, column)
        self.show_figures(None)

    def _bound(self, place: int) -> float:
        return self._told[place] or 0.0

    @property
    def allowed_ns(self) -> float | None:
        """None while any time is allowed."""
        typed = self.allowed.text()
        return float(typed) * NS_PER_MS if typed and self.allowed.hasAcceptableInput() else None

    def show_figures(self, told: Percentiles | None) -> None:
        """Percentiles beyond the allowed time in the colour of errors."""
        self._told = (told.p50, told.p90, told.p99) if told is not None else (None,) * len(FIGURES)
        for figure, value in zip(self.figures, self._told, strict=True):
            figure.setText("-" if value is None else duration(round(value)))
            figure.setEnabled(value is not None)
            late = value is not None and self.allowed_ns is not None and value > self.allowed_ns
            _give_role(figure, "error" if late else "")


@tab
class ServingPanel(Panel):
    """A row flies to its steps; that of a request to its range, or to the step that gave its first token."""

    title = "Serving"
    lacks = (
        "No engine that serves requests was recorded. "
        "Mark its steps (execute_..., step[...], prefill, decode), or open a request log."
    )
    order = 45
    says_whole_run = True

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(document, parent)
        document.stage_changed.connect(self._bring_lanes)

    def _bring_lanes(self, stage: Stage) -> None:
        """Requests lie on the timeline before anybody looks at this tab."""
        if stage is Stage.READY and self._stale and self.has_data():
            self.ensure_built()
            self._refresh_now()

    def build(self) -> None:
        self._found: ServingTables | None = None
        self._order = 0  # of the requests on the timeline: how often another one was asked for
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(4)
        for column, text in enumerate((*FIGURES, "allowed ms"), start=1):
            grid.addWidget(Label(text, "secondary", pixels=12), 0, column)
        self._request = -1  # the one that was chosen last
        self.ttft = _Latency("TTFT", "Time to first token", grid, 1, partial(self._walk, "ttft_ns"))
        self.tpot = _Latency("TPOT", "Time per output token", grid, 2, partial(self._walk, "tpot_ns"))
        self.verdict = Label("", weight=QFont.Weight.DemiBold, wrap=True)
        self.about = Label("", "secondary", pixels=12, wrap=True)
        self.costs = Label("", "secondary", pixels=12, wrap=True)
        self.choice = QComboBox()
        self.choice.setAccessibleName("Page of the serving tab")
        self.with_lanes = QCheckBox("Engine and requests on the timeline")
        self.with_lanes.setChecked(True)
        self.with_lanes.setToolTip("R sorts requests by arrival, by end, or by time per token")
        side = QWidget(self)
        stack = fill(vertical(side, (12, 6, 10, 6), 4), self.choice, grid)
        for widget in (self.verdict, self.about, self.costs):
            stack.addWidget(widget)
        fill(stack, SPRING, self.with_lanes)
        self.steps, self.requests = TableView(STEPS, "Engine steps"), TableView(REQUESTS, "Requests")
        self.tables = (self.steps, self.requests)
        self.pages = QStackedWidget(self)
        self.latencies, self.capacity = LatencyCharts(), CapacityChart()
        for page in (*self.tables, self.latencies, self.capacity):
            self.pages.addWidget(page)
        row = horizontal(spacing=0)
        scroll = scrolling(side)  # in a low dock nothing is squeezed
        scroll.setFixedWidth(SIDE_WIDTH)
        fill(row, scroll, (self.pages, 1))
        self.column.addLayout(row)
        self.choice.currentIndexChanged.connect(self._turn_to)
        self.with_lanes.toggled.connect(self._show_lanes)
        self.latencies.chosen.connect(self._show_requests)
        self.pages.currentChanged.connect(lambda _: self.tables_shown.emit())
        self.steps.chosen.connect(self._show_steps)
        self.requests.chosen.connect(self._fly_to_request)
        self.document.request_chosen.connect(self._choose_request)
        by_key = QShortcut(QKeySequence("R"), self)
        by_key.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        by_key.activated.connect(self._sort_lanes)
        for latency in (self.ttft, self.tpot):
            latency.allowed.textChanged.connect(lambda _: self._judge())

    def has_data(self) -> bool:
        """Steps of an engine were found when the recording was analysed, or a log of requests was opened."""
        trace = self.document.trace
        if trace is None:
            return False
        return bool(engine_steps.kept(trace)) or any(table.columns == REQUEST_LOG for table in trace.tables)

    def refresh(self) -> None:
        def work(trace: Trace) -> ServingTables | None:
            from viewer.statistics.serving import serving_tables

            return serving_tables(trace)

        self.compute_of(self.document.trace, work, self._show)

    def _show(self, found: ServingTables | None) -> None:
        self._found, self._request = found, -1
        if found is None:
            return
        self.steps.set_frame(found.steps)
        there = {
            self.steps: bool(len(found.steps)),
            self.requests: found.requests is not None,
            self.latencies: found.requests is not None,
            self.capacity: len(found.serving.decode_ns_by_batch) > 1,
        }
        now = self.choice.currentText()
        with QSignalBlocker(self.choice):
            self.choice.clear()
            for page, title in zip(there, PAGES, strict=True):
                if there[page]:
                    self.choice.addItem(title, page)
            self.choice.setCurrentText(now)
        self.choice.setVisible(self.choice.count() > 1)
        self._turn_to()
        self.with_lanes.setVisible(len(found.engine) > 1)
        self._show_lanes()
        for latency in (self.ttft, self.tpot):
            latency.allowed.setEnabled(found.requests is not None)
        self._judge()

    def _judge(self) -> None:
        """Against the allowed times as they are typed now."""
        from viewer.reports.serving_report import cost_lines

        found = self._found
        if found is None:
            return
        self.ttft.show_figures(found.serving.ttft_ns)
        self.tpot.show_figures(found.serving.tpot_ns)
        self.about.setText(_about(found))
        costs = found.serving.costs
        self.costs.setText(_shares(costs))
        self.costs.setToolTip("\n".join(cost_lines(costs)))
        of_batch = found.serving.decode_ns_by_batch.items()
        counts = np.bincount(np.maximum(found.engine.of_kind(StepKind.DECODE).decoded, 0))
        self.capacity.show_batches(
            [Batch(size, ns, int(counts[size])) for size, ns in of_batch],
            found.serving.plateau,
            self.tpot.allowed_ns,
            capacity_of(found.engine.of_kind(StepKind.DECODE)),
        )
        if found.requests is None:
            self.verdict.hide()
            return
        from viewer.statistics.serving import request_table

        allowed = AllowedTimes(self.ttft.allowed_ns, self.tpot.allowed_ns)
        self.latencies.show_latencies(found.requests, allowed)
        lateness = found.requests.lateness(allowed)
        self.requests.set_frame(request_table(found, found.requests, lateness))
        self.verdict.setText(_verdict(lateness))
        self.verdict.setVisible(lateness.share_in_time is not None)
        _give_role(self.verdict, "error" if lateness.late.any() else "")

    def _show_steps(self, row: int) -> None:
        from viewer.statistics.serving import places_of_steps

        if self.document.trace is not None and self._found is not None:
            self.document.show_evidence(places_of_steps(self.document.trace, self._found, row))

    def _show_requests(self, rows: I64) -> None:
        from viewer.statistics.serving import places_of_requests

        if self.document.trace is not None and self._found is not None and self._found.requests is not None:
            self.document.show_evidence(places_of_requests(self.document.trace, self._found.requests, rows))

    def _fly_to_request(self, row: int) -> None:
        from viewer.statistics.serving import place_of_request

        found = self._found
        if found is None or found.requests is None:
            return
        place = place_of_request(found.requests, found.engine, row) if self.with_lanes.isChecked() else []
        if place:
            self.document.show_evidence(place)
        else:
            self._show_requests(np.array([row]))
        self._outline(row)

    def _outline(self, row: int) -> None:
        self._request = row
        self._show_lanes()

    def _choose_request(self, row: int) -> None:
        self.choice.setCurrentIndex(self.choice.findText(PAGES[1]))
        self.requests.select_frame_row(row)
        self._outline(row)

    def _walk(self, latency: str, bound: float) -> None:
        """To the slowest request beyond a percentile, from there to the next one."""
        if self._found is None or self._found.requests is None:
            return
        values: F64 = getattr(self._found.requests, latency)
        beyond = np.flatnonzero(values > bound)
        slowest_first = beyond[np.argsort(-values[beyond], kind="stable")].tolist()
        if not slowest_first:
            return
        place = slowest_first.index(self._request) + 1 if self._request in slowest_first else 0
        row = slowest_first[place % len(slowest_first)]
        self.choice.setCurrentIndex(self.choice.findText(PAGES[1]))
        self.requests.select_frame_row(row)
        self._fly_to_request(row)

    def _turn_to(self) -> None:
        page = self.choice.currentData()
        if isinstance(page, QWidget):
            self.pages.setCurrentWidget(page)

    def _show_lanes(self) -> None:
        found, turn, trace, chosen = self._found, self._order, self.document.trace, self._request
        if found is None or trace is None or not self.with_lanes.isChecked():
            self.document.show_request_lanes(())
            return

        def work(progress: Progress) -> Sequence[Derived]:
            from viewer.statistics.serving_lanes import Order, engine_lanes, request_lanes

            progress.step(0.0, "sorting the requests")
            order = list(Order)[turn % len(Order)]
            return [
                *engine_lanes(trace, found.engine, found.requests, chosen),
                *request_lanes(found.requests, found.engine, found.held_up_ns, order, chosen),
            ]

        def answer(lanes: Sequence[Derived]) -> None:
            if trace is self.document.trace and self.with_lanes.isChecked():
                self.document.show_request_lanes(lanes)

        self.document.jobs.ask("request lanes", work, answer)

    def _sort_lanes(self) -> None:
        self._order += 1
        self._show_lanes()


def _verdict(lateness: Lateness) -> str:
    share = lateness.share_in_time
    if share is None:
        return ""
    late, judged = int(lateness.late.sum()), int(lateness.judged.sum())
    cut = len(lateness.judged) - judged
    counted = f"; {cut:,} not finished, not counted" if cut else ""
    return f"{percent(share)} in time, {late:,} of {judged:,} late{counted}"


def _about(found: ServingTables) -> str:
    """What the figures rest on, in a few short sentences."""
    from viewer.reports.serving_report import said_of_logs
    from viewer.statistics.serving import MAX_REQUESTS

    serving = found.serving
    said = []
    if serving.requests is not None:
        source = "their log" if serving.source is RequestSource.LOG else "their ranges"
        said.append(f"{serving.requests:,} requests by {source}")
    elif not serving.other_logs:
        said.append("No requests are marked: open a request log with the recording for their latencies")
    if serving.other_logs:
        told = said_of_logs(serving)
        said.append(told if said else capital(told))
    if found.requests is not None and len(found.steps) and not (found.requests.event >= 0).any():
        said.append("the log does not fit the engine's steps, so that its rows have no place")
    if (serving.requests or 0) > MAX_REQUESTS:
        said.append(f"the table has the first {MAX_REQUESTS:,}")
    if serving.tokens_per_s is not None:
        said.append(f"{three_digits(serving.tokens_per_s)} tokens/s out")
    if serving.plateau is not None:
        said.append(f"above a batch of {serving.plateau:,}, larger ones hardly decode more per second")
    return "; ".join(said) + "."


def _shares(costs: EngineCosts) -> str:
    """What the engine spends beside its model, in one short line."""
    by_name = costs.cache is not None and costs.cache.by_name
    told = {
        "between steps": (costs.between, "of the time"),
        "sampling": (costs.sampling, "of the steps"),
        "KV cache" if by_name else "indexed reads and writes": (costs.cache, "of the kernels"),
    }
    said = ", ".join(f"{name} {percent(each.share)} {of}" for name, (each, of) in told.items() if each)
    return f"{capital(said)}." if said else ""


def _give_role(label: QWidget, role: str) -> None:
    if label.property("role") != role:
        label.setProperty("role", role)
        label.style().unpolish(label)
        label.style().polish(label)
