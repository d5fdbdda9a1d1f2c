"""All metrics of a profiled launch, by section, with units and what they are called on the details page."""

from __future__ import annotations

from PySide6.QtWidgets import QLineEdit, QWidget

from parsers.model import KernelProfile
from parsers.ncu.labels import sections_of_metrics
from rules.kernels.checks.explanations import explain_metric, report_sections
from viewer.appearance.boxes import fill, vertical
from viewer.appearance.labels import Label
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
