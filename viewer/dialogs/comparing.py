"""Compares the open recording with another one and shows what changed: the verdict first, then the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QTabWidget, QVBoxLayout, QWidget
from shiboken6 import isValid

from parsers.model import Progress, Trace, TraceError
from parsers.model.names.kernels import distinct_names, kernel_name
from viewer.document import Document
from viewer.look.labels import ElidedLabel, Label, tooltip
from viewer.look.separator import HorizontalLine
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView
from viewer.reports.comparison_report import change, finding_sides, sides

if TYPE_CHECKING:
    from rules.comparison.compare import Comparison
    from rules.comparison.kernel_rows import KernelChange
    from rules.thresholds import Thresholds

MEASURES = (
    Column("name", "What"),
    Column("before", "Before", Show.FIGURE, width=150),
    Column("after", "After", Show.FIGURE, width=150),
    Column("change", "Change", Show.FIGURE, width=120),
)
FINDINGS = (
    Column("change", "Now", width=100, hint="What became of it"),
    Column("title", "Finding", stretch=True),
    Column("before", "Cost before", Show.FIGURE, width=150, hint="What it could give back at most, a step"),
    Column("after", "Cost after", Show.FIGURE, width=150, hint="What it could give back at most, a step"),
)
_OF_STEP = "A step; of all that was analysed, where no steps were found"
_WORK = (
    Column("before", "Before", Show.TIME, _OF_STEP),
    Column("after", "After", Show.TIME, _OF_STEP),
    Column("change", "Change", Show.TIME, _OF_STEP),
    Column("calls_before", "Calls before", Show.NUMBER, _OF_STEP),
    Column("calls_after", "Calls after", Show.NUMBER, _OF_STEP),
)
KERNELS = (Column("short", "Kernel", whole="name"), *_WORK)
FAMILIES = (Column("short", "Kind of kernel", Show.FAMILY), *_WORK)
COUNTERS = (
    Column("kernel", "Profiled kernel"),
    Column("label", "What", width=260),
    Column("before", "Before", Show.FIGURE, width=130),
    Column("after", "After", Show.FIGURE, width=130),
)


def compare_with(document: Document, paths: Sequence[Path], parent: QWidget) -> None:
    """Read the other recording in the background, then show how it differs from the open one, which came before."""
    trace = document.trace
    if trace is None:
        return

    thresholds = document.thresholds

    def work(progress: Progress) -> _Compared:
        from parsers import open_trace
        from rules.comparison.compare import compare

        other = open_trace(paths, progress.part(0.0, 0.7))
        progress.step(0.7, "comparing")
        return _Compared(trace, other, compare(trace, other, thresholds), thresholds)

    _ask(document, parent, work)


@dataclass(frozen=True, slots=True)
class _Compared:
    before: Trace
    after: Trace
    result: Comparison
    thresholds: Thresholds

    def the_other_way_round(self, progress: Progress) -> _Compared:
        from rules.comparison.compare import compare

        progress.step(0.0, "comparing")
        result = compare(self.after, self.before, self.thresholds)
        return _Compared(self.after, self.before, result, self.thresholds)


def _ask(
    document: Document,
    parent: QWidget,
    work: Callable[[Progress], _Compared],
    replaced: ComparisonDialog | None = None,
) -> None:
    """Compare in the background, then show it, in place of ``replaced`` if there is one."""

    def answer(compared: _Compared) -> None:
        dialog = ComparisonDialog(compared.result, parent)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.swap_wanted.connect(lambda: _ask(document, parent, compared.the_other_way_round, dialog))
        if replaced is not None and isValid(replaced):
            dialog.setGeometry(replaced.geometry())
            dialog.tabs.setCurrentIndex(replaced.tabs.currentIndex())
            replaced.close()
        dialog.show()

    def failed(error: Exception) -> None:
        if isinstance(error, TraceError):
            document.failed.emit(error.problem, error.hint)
        else:
            raise error

    document.jobs.ask("compare", work, answer, failed)


class ComparisonDialog(QDialog):
    """Before and after; stays open beside the window."""

    swap_wanted = Signal()

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
        for side, paths in zip(("Before", "After"), result.files, strict=True):
            label = ElidedLabel(f"{side}: {_names(paths)}", "secondary")
            label.setToolTip(tooltip("\n".join(paths)))
            head.addWidget(label)
        for caution in result.cautions:
            head.addWidget(Label(f"Careful: {caution}", "secondary", pixels=12, wrap=True))
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self._add_tables(result)
        foot = QHBoxLayout()
        foot.setContentsMargins(18, 8, 18, 12)
        foot.setSpacing(8)
        swap = QPushButton("Swap before and after")
        swap.clicked.connect(self.swap_wanted)
        swap.setAutoDefault(False)
        copy = QPushButton("Copy as text")
        copy.clicked.connect(self._copy)
        copy.setAutoDefault(False)
        close = QPushButton("Close")
        close.clicked.connect(self.close)
        foot.addWidget(swap)
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

    def _add_tables(self, result: Comparison) -> None:
        measures = [
            (each.name, *sides(each, result), change(each, result))
            for each in (result.step, *result.measures)
        ]
        self._add("Time", MEASURES, ("name", "before", "after", "change"), measures)
        findings = [
            (each.change.value, each.finding.title_beside_its_cost, *finding_sides(each, result))
            for each in result.findings
        ]
        self._add("Findings", FINDINGS, ("change", "title", "before", "after"), findings)
        work = ("name", "short", "before", "after", "change", "calls_before", "calls_after")
        self._add("Kinds of kernel", FAMILIES, work, [_row(each, each.name) for each in result.families])
        names = distinct_names([each.name for each in result.kernels])
        kernels = [_row(each, name) for each, name in zip(result.kernels, names, strict=True)]
        self._add("Kernels", KERNELS, work, kernels)
        counters = [
            (kernel_name(profile.after.name), row.label, row.before_text, row.after_text)
            for profile in result.profiles
            for row in profile.rows
            if row.is_noticeable
        ]
        self._add("Counters", COUNTERS, ("kernel", "label", "before", "after"), counters)

    def _add(
        self, title: str, columns: Sequence[Column], keys: Sequence[str], rows: Sequence[tuple[object, ...]]
    ) -> None:
        """A tab with a table; none where there is nothing to say."""
        import pandas as pd

        if rows:
            table = TableView(columns, title)
            table.set_frame(pd.DataFrame(rows, columns=list(keys)))
            self.tabs.addTab(table, title)

    def _copy(self) -> None:
        from viewer.reports.comparison_report import as_text

        QGuiApplication.clipboard().setText(as_text(self.result_shown))


def _names(paths: Sequence[str]) -> str:
    """The file's name; of several, the first one's and how many more."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return (Path(paths[0]).name if paths else "") + more


def _row(each: KernelChange, short: str) -> tuple[object, ...]:
    """A dash stands where a side has none."""
    nothing = float("nan")
    return (
        each.name,
        short,
        each.ns_before if each.calls_before else nothing,
        each.ns_after if each.calls_after else nothing,
        each.ns_change,
        each.calls_before or nothing,
        each.calls_after or nothing,
    )
