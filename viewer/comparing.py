"""Compares the open recording with another one and shows what changed: the verdict first, then the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QTabWidget, QVBoxLayout, QWidget

from parsers.model import Progress, TraceError
from parsers.model.units import duration, percent, three_digits
from viewer.labels import Label
from viewer.lines import HorizontalLine
from viewer.panels.table_model import Column, Show
from viewer.panels.table_view import TableView
from viewer.timeline.geometry.naming import kernel_name

if TYPE_CHECKING:
    from rules.compare import Comparison, Measure
    from viewer.main_window import MainWindow

MEASURES = (
    Column("name", "What"),
    Column("before", "Before", width=120),
    Column("after", "After", width=120),
    Column("change", "Change", width=120),
)
KERNELS = (
    Column("short", "Kernel, a step", whole="name"),
    Column("before", "Before", Show.TIME),
    Column("after", "After", Show.TIME),
    Column("change", "Change", Show.TIME),
    Column("calls_before", "Calls before", Show.NUMBER),
    Column("calls_after", "Calls after", Show.NUMBER),
)
COUNTERS = (
    Column("kernel", "Profiled kernel"),
    Column("label", "What", width=260),
    Column("before", "Before", width=130),
    Column("after", "After", width=130),
)


def compare_with(window: MainWindow, paths: Sequence[Path]) -> None:
    """Read the other recording in the background, then show how it differs from the open one, which came before."""
    trace = window.document.trace
    if trace is None:
        return

    thresholds = window.document.thresholds

    def work(progress: Progress) -> Comparison:
        from parsers import open_trace
        from rules.compare import compare

        other = open_trace(paths, progress.part(0.0, 0.7))
        progress.step(0.7, "comparing")
        return compare(trace, other, thresholds)

    def answer(result: Comparison) -> None:
        dialog = ComparisonDialog(result, window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.show()

    def failed(error: Exception) -> None:
        if isinstance(error, TraceError):
            window.banner.say(error.problem, error.hint)
        else:
            raise error

    window.jobs.ask("compare", work, answer, failed)


class ComparisonDialog(QDialog):
    """Before and after; stays open beside the window."""

    def __init__(self, result: Comparison, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.result_shown = result
        self.setWindowTitle("Comparison")
        self.resize(980, 660)
        head = QVBoxLayout()
        head.setContentsMargins(18, 14, 18, 10)
        head.setSpacing(4)
        head.addWidget(
            Label(result.verdict, pixels=17, weight=QFont.Weight.DemiBold, wrap=True, selectable=True)
        )
        head.addWidget(Label(f"before: {result.before}    after: {result.after}", "secondary", wrap=True))
        for caution in result.cautions:
            head.addWidget(Label(f"Careful: {caution}", "secondary", pixels=12, wrap=True))
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self._add_numbers(result)
        self._add_findings(result)
        foot = QHBoxLayout()
        foot.setContentsMargins(18, 8, 18, 12)
        copy = QPushButton("Copy as text")
        copy.clicked.connect(self._copy)
        copy.setAutoDefault(False)
        close = QPushButton("Close")
        close.clicked.connect(self.close)
        foot.addStretch(1)
        foot.addWidget(copy)
        foot.addWidget(close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(head)
        layout.addWidget(HorizontalLine())
        layout.addWidget(self.tabs, 1)
        layout.addLayout(foot)

    def _add_numbers(self, result: Comparison) -> None:
        import pandas as pd

        measures = [
            (each.name, _written(each, each.before), _written(each, each.after), _change(each))
            for each in (result.step, *result.measures)
        ]
        self._add("Time", MEASURES, pd.DataFrame(measures, columns=["name", "before", "after", "change"]))
        kernels = [
            (
                each.name,
                kernel_name(each.name),
                each.ns_before if each.calls_before else float("nan"),
                each.ns_after if each.calls_after else float("nan"),
                each.ns_change,
                each.calls_before,
                each.calls_after,
            )
            for each in result.kernels
        ]
        columns = ["name", "short", "before", "after", "change", "calls_before", "calls_after"]
        if kernels:
            self._add("Kernels", KERNELS, pd.DataFrame(kernels, columns=columns))
        counters = [
            (kernel_name(profile.after.name), row.label, row.before_text, row.after_text)
            for profile in result.profiles
            for row in profile.rows
            if row.is_noticeable
        ]
        if counters:
            self._add(
                "Counters", COUNTERS, pd.DataFrame(counters, columns=["kernel", "label", "before", "after"])
            )

    def _add(self, title: str, columns: Sequence[Column], frame: object) -> None:
        table = TableView(columns, title)
        table.set_frame(frame)  # type: ignore[arg-type]
        self.tabs.addTab(table, title)

    def _add_findings(self, result: Comparison) -> None:
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(18, 12, 18, 12)
        column.setSpacing(6)
        for title, findings in (("Gone", result.resolved), ("New", result.appeared)):
            column.addWidget(Label(title, weight=QFont.Weight.DemiBold, pixels=14))
            for finding in findings:
                column.addWidget(Label(f"•  {finding.title}", wrap=True, selectable=True))
            if not findings:
                column.addWidget(Label("nothing", "secondary"))
            column.addSpacing(8)
        column.addStretch(1)
        self.tabs.addTab(body, "Findings")

    def _copy(self) -> None:
        from viewer.reports.comparison_report import as_text

        QGuiApplication.clipboard().setText(as_text(self.result_shown))


def _written(measure: Measure, value: float) -> str:
    if measure.unit == "ns":
        return duration(value)
    return percent(value) if measure.unit == "share" else three_digits(value)


def _change(measure: Measure) -> str:
    if measure.unit == "share":
        return f"{(measure.after - measure.before) * 100:+.1f} points"
    return "new" if measure.change == float("inf") else f"{measure.change * 100:+.1f} %"
