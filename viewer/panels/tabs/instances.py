"""The instances tab: every single collective, gap, copy, synchronisation or launch, with where it happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtWidgets import QComboBox, QStackedLayout

from parsers.model import EventKind
from parsers.model.late import dataclass
from parsers.model.units import duration, size
from rules.analysis.idle.causes import Cause
from viewer.appearance.widgets import ElidedLabel, fill, horizontal
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView
from viewer.statistics.budget_intervals import gpu_lane_of

if TYPE_CHECKING:
    import pandas as pd

    from rules.analysis.analysis import Analysis
    from viewer.query.explained import Behind

MAX_ROWS = 20_000  # the longest: more than that nobody reads, and sorting them by hand would be felt
WHOLE = ":whole"  # end of the key of a column with the name that another one shortens
SHOWN = {"ns": Show.TIME, "B": Show.SIZE, "B/s": Show.RATE}
MINOR = frozenset(
    {"bus_bytes_per_s", "device", "stream", "thread", "process_group", "from_memory", "to_memory", "call"}
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of instance: its table, how many there are, and which columns are shown with which titles."""

    title: str
    table: str
    count: Callable[[Analysis], int]
    order: str  # the column by which the longest are chosen
    titles: dict[str, str]


def _count_of(*kinds: EventKind) -> Callable[[Analysis], int]:
    return lambda analysis: len(analysis.trace.events.of_kind(*kinds))


ON_GPU = {"rank": "Rank", "device": "GPU"}
WHERE = {**ON_GPU, "stream": "Stream", "step": "Step"}
KINDS = (
    Kind(
        "Collectives",
        "collectives",
        lambda analysis: len(analysis.trace.collective_kernels),
        "exposed_ns",
        {
            "name": "Collective",
            "message_bytes": "Size",
            "duration_ns": "Duration",
            "exposed_ns": "Exposed",
            "waiting_ns": "Waiting",
            "waits_for": "Waits for rank",
            "bus_bytes_per_s": "Bus",
            "process_group": "Group",
            **WHERE,
            "start_ns": "Start",
        },
    ),
    Kind(
        "Gaps",
        "gaps",
        lambda analysis: len(analysis.idle),
        "duration_ns",
        {
            "culprit": "Culprit",
            "cause": "Cause",
            "duration_ns": "Duration",
            **ON_GPU,
            "step": "Step",
            "start_ns": "Start",
        },
    ),
    Kind(
        "Copies",
        "copies",
        _count_of(EventKind.MEMCPY, EventKind.MEMSET),
        "duration_ns",
        {
            "name": "Copy",
            "size_bytes": "Size",
            "duration_ns": "Duration",
            "exposed_ns": "Exposed",
            "from_memory": "From",
            "to_memory": "To",
            "region": "Region",
            **WHERE,
            "start_ns": "Start",
        },
    ),
    Kind(
        "Synchronisations",
        "synchronisations",
        _count_of(EventKind.API),
        "duration_ns",
        {
            "name": "Call",
            "duration_ns": "Duration",
            "gpu_idle_ns": "GPU idle",
            "operator": "Operator",
            "region": "Region",
            "rank": "Rank",
            "thread": "Thread",
            "step": "Step",
            "start_ns": "Start",
        },
    ),
    Kind(
        "Launches",
        "launch_waits",
        lambda analysis: len(analysis.trace.links.launch),
        "gpu_idle_ns",
        {
            "name": "Launched",
            "call": "Call",
            "duration_ns": "Call took",
            "queued_ns": "Queued",
            "gpu_idle_ns": "GPU idle before",
            **WHERE,
            "start_ns": "Start",
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Rows:
    """What a job hands over: the rows of one kind that start in a span, and how many more there are."""

    kind: Kind
    columns: tuple[Column, ...]
    frame: pd.DataFrame
    left: int


def rows_of_kind(kind: Kind, analysis: Analysis, t0: int, t1: int) -> Rows:
    """The rows that start in [t0, t1), ns: all, or the MAX_ROWS with the most of ``kind.order``."""
    from parsers.model.names.kernels import kernel_name
    from viewer.tables.table import described, frame_of

    whole = frame_of(analysis, kind.table)
    inside = (whole["start_ns"].to_numpy() >= t0) & (whole["start_ns"].to_numpy() < t1)
    frame = whole[inside]
    left = max(len(frame) - MAX_ROWS, 0)
    frame = frame.sort_values(kind.order, ascending=False, kind="stable")[:MAX_ROWS].reset_index(drop=True)
    about = {column.name: column for column in described(kind.table)}
    columns: list[Column] = []
    for key, title in kind.titles.items():
        values = frame[key]
        if not values.notna().any():
            continue
        numeric = about[key].unit in SHOWN
        short = key == "name" and kind.table in ("collectives", "launch_waits")
        if short:
            frame[key + WHOLE] = values.astype(object)
            names = {name: kernel_name(name) for name in values.dropna().unique()}
            frame[key] = values.map(names).astype(object)
        elif key == "cause":
            labels = {cause.key: analysis.idle.label(cause) for cause in Cause}
            frame[key] = values.map(labels).astype(object)
        elif key == "step":
            steps = analysis.steps
            frame[key] = [steps[int(step)].name if step == step else "" for step in _floats(values)]
        elif numeric:
            frame[key] = _floats(values)
        else:
            frame[key] = values.astype(object).where(values.notna(), "")
        columns.append(
            Column(
                key,
                title,
                SHOWN.get(about[key].unit, Show.TEXT),
                about[key].about,
                stretch=not columns,
                minor=key in MINOR,
                whole=key + WHOLE if short else "",
            )
        )
    return Rows(kind, tuple(columns), frame, left)


def _floats(values: pd.Series) -> np.ndarray:
    return values.to_numpy(np.float64, na_value=np.nan)


@tab
class InstancesPanel(Panel):
    """A row flies to its place; what is selected on the timeline is marked in the table."""

    title = "Instances"
    lacks = "GPU work was not recorded, so there are no gaps, copies or launches to list."
    order = 45
    follows_step = True
    follows_area = True

    def build(self) -> None:
        self.choice = QComboBox()
        self.choice.setAccessibleName("What to list")
        self.summary = ElidedLabel("", "secondary", pixels=12)
        top = fill(horizontal(margins=(10, 5, 12, 5), spacing=10), self.choice, (self.summary, 1))
        self.column.addLayout(top)
        self._stack = QStackedLayout()
        self.column.addLayout(self._stack, 1)
        self._rows: Rows | None = None
        self._filter = ""
        self.choice.activated.connect(lambda _: self.invalidate())
        self.document.analysis_changed.connect(lambda _: self._offer())
        self.document.event_changed.connect(lambda event: self._mark("event", event))
        self.document.gap_changed.connect(lambda row: self._mark("gap", row))
        self._offer()

    @property
    def kind(self) -> Kind | None:
        return next((kind for kind in KINDS if kind.title == self.choice.currentText()), None)

    def has_data(self) -> bool:
        analysis = self.document.analysis
        return analysis is not None and len(analysis.trace.gpu_operations) > 0

    def _offer(self) -> None:
        analysis, chosen = self.document.analysis, self.choice.currentText()
        self.choice.clear()
        if analysis is not None:
            self.choice.addItems([kind.title for kind in KINDS if kind.count(analysis)])
            self.choice.setCurrentIndex(max(self.choice.findText(chosen), 0))

    def refresh(self) -> None:
        analysis, kind = self.document.analysis, self.kind
        if analysis is None or kind is None:
            return
        span = self.span
        if self.document.step < 0 and self.document.area is None:
            span = (0, max(self.document.trace.duration if self.document.trace else 0, span[1]) + 1)
        self.compute(lambda: rows_of_kind(kind, analysis, *span), self._show)

    def _show(self, rows: Rows) -> None:
        if self._rows is None or self._rows.columns != rows.columns or self._rows.kind is not rows.kind:
            self._put(rows)
        self._rows = rows
        self.tables[0].set_frame(rows.frame)
        self._say_summary()

    def _put(self, rows: Rows) -> None:
        table = TableView(rows.columns, rows.kind.title)
        table.chosen.connect(self._choose)
        table.rows.modelReset.connect(self._say_summary)
        table.set_filter(self._filter)
        for former in self.tables:
            self._stack.removeWidget(former)
            former.deleteLater()
        self.tables = (table,)
        self._stack.addWidget(table)
        self._stack.setCurrentWidget(table)
        self.tables_shown.emit()

    def behind(self, table: TableView, row: int) -> Behind | None:
        from viewer.query.explained import Behind

        frame, kind = table.rows.frame, self.kind
        if frame is None or kind is None:
            return None
        key = "gap" if "gap" in frame else "event"
        others = tuple(name for name in (key, *kind.titles) if name == "start_ns" or not name.endswith("_ns"))
        amounts = {name: name for name in kind.titles if name.endswith("_ns") and name != "start_ns"}
        where = f"{key} = {int(frame[key].iloc[row])}"
        return Behind(f"One of the {kind.title.lower()}", kind.table, where, amounts, others)

    def set_filter(self, text: str) -> None:
        self._filter = text
        super().set_filter(text)

    def _say_summary(self) -> None:
        """How many rows there are, their sums, and which time and ranks they are of."""
        if self._rows is None or not self.tables:
            return
        rows, model = self._rows, self.tables[0].rows
        sums = [
            f"{column.title.lower()} {_sum(column, model.shown(column.key))}"
            for column in rows.columns
            if column.show in (Show.TIME, Show.SIZE) and column.key != "start_ns"
        ]
        count = model.rowCount()
        told = f"{count:,} of {len(rows.frame):,}" if count != len(rows.frame) else f"{count:,}"
        more = f" (the largest; {rows.left:,} more)" if rows.left else ""
        self.summary.setText(" · ".join([f"{told}{more}", *sums, self._span_told(), self._ranks_told()]))

    def _span_told(self) -> str:
        document = self.document
        if document.area is not None:
            return f"selected {duration(document.area.end - document.area.start)}"
        if 0 <= document.step < len(document.steps):
            return f"step {document.steps[document.step].name}"
        return "whole recording"

    def _ranks_told(self) -> str:
        ranks = {device.rank for device in self.document.trace.devices} if self.document.trace else set()
        return f"all {len(ranks)} ranks" if len(ranks) > 1 else "one rank"

    def _choose(self, row: int) -> None:
        from rules.findings.base import Evidence

        trace, rows = self.document.trace, self._rows
        if trace is None or rows is None:
            return
        line = rows.frame.iloc[row]
        if rows.kind.table != "gaps":
            self.document.show_event(int(line["event"]))
            return
        analysis = self.document.analysis
        if analysis is not None:
            device = int(analysis.idle.device[int(line["gap"])])
            lane = gpu_lane_of(trace, device)
            name = f"{line['cause']}: {line['culprit']}" if line["culprit"] else str(line["cause"])
            self.document.show_evidence([Evidence(lane, int(line["start_ns"]), int(line["end_ns"]), name)])

    def _mark(self, key: str, value: int) -> None:
        if self._rows is None or value < 0 or key not in self._rows.frame or not self.isVisible():
            return
        if key == "event" and self._rows.kind.table == "gaps":
            return
        at = np.flatnonzero(_floats(self._rows.frame[key]) == value)
        if len(at):
            self.tables[0].select_frame_row(int(at[0]))


def _sum(column: Column, values: np.ndarray) -> str:
    total = float(np.nansum(values))
    return duration(total) if column.show is Show.TIME else size(total)
