"""The tables of one profiled launch: all its metrics by section, and its lines and instructions with their samples."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QComboBox, QLineEdit, QWidget

from parsers.model import KernelProfile
from parsers.ncu.labels import sections_of_metrics
from rules.kernels.checks.explanations import explain_metric, report_sections
from rules.kernels.checks.stalls import label_of
from viewer.appearance.widgets import NO_MARGINS, Label, fill, horizontal, vertical
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

COLUMNS = (
    Column("section", "Section"),
    Column("label", "What it is"),
    Column("metric", "Metric", stretch=True),
    Column("value", "Value", Show.FIGURE),
    Column("unit", "Unit"),
)
LAST = "~"  # sorts behind every letter: metrics of no section come last


class MetricTable(QWidget):
    """A table with a filter above it and a sentence about the chosen metric below."""

    def __init__(self) -> None:
        super().__init__()
        self.table = TableView(COLUMNS, "Metrics")
        search = QLineEdit()
        search.setPlaceholderText("Filter metrics")
        search.setAccessibleName("Filter metrics")
        search.setClearButtonEnabled(True)
        search.textChanged.connect(self.table.set_filter)
        self._about = Label("", "secondary", pixels=12, wrap=True)
        self.table.chosen.connect(self._explain)
        fill(vertical(self, (10, 8, 10, 6)), search, (self.table, 1), self._about)

    def show_kernel(self, kernel: KernelProfile) -> None:
        """The metrics of one launch: those of the sections first, then the others by the unit they belong to."""
        import pandas as pd

        known = sections_of_metrics()
        rows = []
        for name, value in kernel.metrics.items():
            section, label = known.get(name, ("", ""))
            where = (
                report_sections()[section].label
                if section in report_sections()
                else section or f"{LAST}{explain_metric(name)}"
            )
            rows.append((where, label, name, written(value), kernel.units.get(name, "")))
        frame = pd.DataFrame(sorted(rows), columns=["section", "label", "metric", "value", "unit"])
        frame["section"] = frame["section"].str.removeprefix(LAST)
        self.table.set_frame(frame)

    def _explain(self, row: int) -> None:
        frame = self.table.rows.frame
        if frame is not None:
            metric = str(frame["metric"].iloc[row])
            section = report_sections().get(sections_of_metrics().get(metric, ("", ""))[0])
            self._about.setText(f"{section.meaning} {section.cost}" if section else explain_metric(metric))


def written(value: object) -> str:
    """A number with at most six digits; a text as it is."""
    return f"{value:,.6g}" if isinstance(value, (int, float)) else str(value)


_NUMBERS = (
    Column("share", "Samples", Show.SHARE, "Share of the counted samples"),
    Column("stall", "Waits for"),
    Column("stalled", "of these", Show.PERCENT, "Share of the samples of this row"),
    Column("executed", "Executed", Show.COUNT, "By warps"),
)
INSTRUCTIONS = (
    Column("line", "No.", Show.COUNT),
    Column("address", "Address"),
    Column("text", "Instruction", stretch=True),
    Column("place", "Program", hint="The line of the program behind it", sparse=True),
    *_NUMBERS,
)
LINES = (
    Column("place", "Line"),
    Column("text", "Program", stretch=True),
    Column("instructions", "Instructions", Show.COUNT, "Its own, and those of functions inlined there"),
    *_NUMBERS,
)
HOW = (
    "The report has no samples of this kernel's instructions. Record with ncu --section SourceCounters, and with "
    "--import-source yes to see the lines of the program; or open its page beside it: "
    "ncu --import REPORT.ncu-rep --page source --csv."
)
NO_TEXT = (
    "Reports have no text of instructions; open the report together with its page to see it: "
    "ncu --import REPORT.ncu-rep --page source --csv"
)
BY_LINE, BY_INSTRUCTION = "Lines of the program", "Instructions"


class SourceTable(QWidget):
    """In the order of the program; a click on a heading sorts the hottest rows to the top.

    Enter on a line of the program leads to its hottest instruction.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kernel: KernelProfile | None = None
        self.table = TableView(INSTRUCTIONS, "Instructions")
        self.lines = TableView(LINES, "Lines of the program")
        self.lines.doubleClicked.connect(lambda index: self._to_instruction(index.row()))
        enter = QAction("Go to its hottest instruction", self.lines)
        enter.setShortcuts([QKeySequence(Qt.Key.Key_Return), QKeySequence(Qt.Key.Key_Enter)])
        enter.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        enter.triggered.connect(lambda: self._to_instruction(self.lines.currentIndex().row()))
        self.lines.addAction(enter)
        self.note = Label("", "secondary", wrap=True)
        self.rows, self.counted = QComboBox(), QComboBox()
        for box, name, tip in (
            (self.rows, "Rows", "What has a row of its own"),
            (
                self.counted,
                "Counted samples",
                "Count all samples, or only those of warps waiting for one thing",
            ),
        ):
            box.setAccessibleName(name)
            box.setToolTip(tip)
            box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
            box.currentIndexChanged.connect(lambda _: self._show_rows())
        head = fill(horizontal(margins=(14, 6, 14, 6), spacing=8), (self.note, 1), self.rows, self.counted)
        fill(vertical(self, NO_MARGINS, 0), head, (self.lines, 1), (self.table, 1))

    def show_kernel(self, kernel: KernelProfile) -> None:
        from viewer.statistics.kernel_source import reasons_of

        self._kernel = kernel
        source = kernel.source
        blocked = QSignalBlocker(self.rows), QSignalBlocker(self.counted)
        by_instruction, reason = self.rows.currentText() == BY_INSTRUCTION, self.counted.currentData()
        self.rows.clear()
        self.counted.clear()
        self.counted.addItem("All samples", "")
        if source is not None:
            self.rows.addItems([BY_LINE, BY_INSTRUCTION] if source.places else [BY_INSTRUCTION])
            self.rows.setCurrentText(BY_INSTRUCTION if by_instruction else BY_LINE)
            for each, count in reasons_of(source):
                self.counted.addItem(f"{label_of(each)} ({count:,})", each)
            self.counted.setCurrentIndex(max(self.counted.findData(reason), 0))
        self.rows.setVisible(self.rows.count() > 1)
        self.counted.setVisible(self.counted.count() > 1)
        del blocked
        self._show_rows()

    def _show_rows(self) -> None:
        from viewer.statistics.kernel_source import hottest, lines_frame, source_frame

        source = self._kernel.source if self._kernel is not None else None
        by_line = self.rows.currentText() == BY_LINE
        self.lines.setVisible(source is not None and by_line)
        self.table.setVisible(source is not None and not by_line)
        if source is None:
            self.note.setText(HOW)
            return
        reason = self.counted.currentData() or ""
        frame = (lines_frame if by_line else source_frame)(source, reason)
        (self.lines if by_line else self.table).set_frame(frame)
        untold = "" if by_line or any(source.text) else f" {NO_TEXT}."
        self.note.setText(f"{hottest(frame, reason)}{untold}")

    def _to_instruction(self, row: int) -> None:
        frame = self.lines.rows.frame
        if frame is not None and row >= 0:
            first = int(frame["first"].iloc[self.lines.rows.frame_row(row)])
            self.rows.setCurrentText(BY_INSTRUCTION)
            self.table.select_frame_row(first)
            self.table.setFocus()
