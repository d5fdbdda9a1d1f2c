"""The kernels tab: GPU operations by name or by family, with their share of the GPU's time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QStackedLayout

from parsers.model.lanes import GPU_WORK
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show, described
from viewer.panels.tables.table_view import TableView
from viewer.statistics.kernels import duration_counts, family_table, kernel_table, operations_in
from viewer.tables.summaries.gpu import KernelKinds, KernelSummary

if TYPE_CHECKING:
    import pandas as pd

    from rules.analysis.analysis import Analysis
    from rules.comparison.kernel_calls import CallsComparison
    from viewer.panels.kernel.kernel_pair import SideBySide
    from viewer.query.explained import Behind

BY_NAME = (
    described(KernelSummary, "short_name", whole="name"),
    described(KernelSummary, "family", Show.FAMILY),
    described(KernelSummary, "calls", Show.COUNT),
    described(KernelSummary, "total_ns"),
    described(KernelSummary, "mean_ns", minor=True),
    described(KernelSummary, "p50_ns", minor=True),
    described(KernelSummary, "p99_ns", minor=True),
    described(KernelSummary, "gpu_time_share", short="Share"),
    Column(
        "spread",
        "Durations",
        Show.SPREAD,
        "How many calls took how long, from its shortest to its longest in equal ratios; sorted by p99 beside p50",
        minor=True,
        parts=("counts",),
    ),
)
BY_FAMILY = (
    described(KernelKinds, "family", Show.FAMILY),
    described(KernelKinds, "kernels", Show.COUNT),
    described(KernelKinds, "calls", Show.COUNT),
    described(KernelKinds, "total_ns"),
    described(KernelKinds, "mean_ns"),
    described(KernelKinds, "gpu_time_share", short="Share"),
)


@tab
class KernelsPanel(Panel):
    """Follows the selected area or step; a row selects the longest call on the timeline, two stand side by side."""

    title = "Kernels"
    lacks = (
        "GPU work was not recorded. "
        "Record it with torch.profiler (ProfilerActivity.CUDA) or nsys profile --trace=cuda."
    )
    order = 20
    follows_step = True
    has_families = True
    follows_area = True

    def build(self) -> None:
        self.by_name = TableView(BY_NAME, "Kernels")
        self.by_family = TableView(BY_FAMILY, "Kernel families")
        self.tables = (self.by_name, self.by_family)
        self._stack = QStackedLayout()
        self.column.addLayout(self._stack)  # first: it shows what is added, which then needs a parent
        self.pair: SideBySide | None = None
        self._halves = QSplitter(Qt.Orientation.Horizontal)
        self._halves.addWidget(self.by_name)
        self._halves.setChildrenCollapsible(False)
        self._stack.addWidget(self._halves)
        self._stack.addWidget(self.by_family)
        for table in self.tables:
            table.chosen.connect(lambda row, table=table: self.select_event_of(table, row))
        self.by_name.selectionModel().selectionChanged.connect(lambda *_: self._set_side_by_side())
        self.document.event_changed.connect(lambda event: self.mark_name_of(self.by_name, event))

    def has_data(self) -> bool:
        trace = self.document.trace
        return trace is not None and self.document.analysis is not None and len(trace.gpu_operations) > 0

    def group_by_family(self, on: bool) -> None:
        self._stack.setCurrentIndex(int(on))

    def refresh(self) -> None:
        t0, t1 = self.span

        def work(analysis: Analysis) -> tuple[pd.DataFrame, pd.DataFrame]:

            trace = analysis.trace
            kernels = kernel_table(analysis, t0, t1)
            families = family_table(kernels)
            operations = operations_in(trace, t0, t1)
            name = trace.events.name
            keys = name[kernels["event"].to_numpy(np.int64)]
            kernels["spread"] = kernels["p99_ns"] / kernels["p50_ns"].clip(lower=1)
            kernels["counts"] = duration_counts(
                name[operations], trace.events.duration[operations], keys
            ).tolist()
            return kernels, families

        self.compute_of(self.document.analysis, work, self._show)

    def _show(self, tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
        self.by_name.set_frame(tables[0])
        self.by_family.set_frame(tables[1])
        self._set_side_by_side()

    def _set_side_by_side(self) -> None:
        frame, trace = self.by_name.rows.frame, self.document.trace
        rows = [index.row() for index in self.by_name.selectionModel().selectedRows()]
        if frame is None or trace is None or len(rows) != 2:
            self.document.jobs.forget("kernels side by side")
            if self.pair is not None:
                self.pair.hide()
            return
        chosen = frame.iloc[[self.by_name.rows.frame_row(row) for row in sorted(rows)]]
        span, names = self.span, chosen["short_name"].tolist()

        def work(_: object) -> CallsComparison:
            from rules.comparison.kernel_calls import compare_calls

            operations = operations_in(trace, *span)
            name = trace.events.name
            first, second = (
                operations[name[operations] == name[event]] for event in chosen["event"].tolist()
            )
            return compare_calls(trace, first, second, float(trace.events.duration[operations].sum()))

        def show(compared: CallsComparison) -> None:
            if trace is self.document.trace:
                self._made_pair().show_rows(names, compared.limits, compared.why, compared.rows)

        self.document.jobs.ask("kernels side by side", work, show)

    def _made_pair(self) -> SideBySide:
        from viewer.panels.kernel.kernel_pair import SideBySide

        if self.pair is None:
            self.pair = SideBySide(low=True)
            self._halves.addWidget(self.pair)
            width = self.width()
            self._halves.setSizes([width // 3, width * 2 // 3])
        self.pair.show()
        return self.pair

    def behind(self, table: TableView, row: int) -> Behind | None:
        from viewer.query.explained import Behind, quoted, starting_in

        frame = table.rows.frame
        if frame is None:
            return None
        inside = f"kind IN ({', '.join(quoted(kind.name.lower()) for kind in GPU_WORK)}) AND {starting_in(self.span)}"
        if table is self.by_name:
            name = frame["name"].iloc[row]
            return Behind(frame["short_name"].iloc[row], "events", f"name = {quoted(name)} AND {inside}")
        family = frame["family"].iloc[row]
        known = self.by_name.rows.frame
        assert known is not None
        names = ", ".join(map(quoted, known.loc[known["family"] == family, "name"]))
        return Behind(family, "events", f"name IN ({names}) AND {inside}")
