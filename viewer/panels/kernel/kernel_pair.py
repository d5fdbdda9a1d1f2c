"""Two profiled launches side by side: what limits each, the counters that differ, and both under the roofline."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QWidget

from parsers.model import KernelProfile
from parsers.model.names.kernels import kernel_name
from rules.comparison.kernels import KernelComparison, compare_kernels
from rules.kernels.checks.speed_of_light import VERDICTS, speed_of_light
from viewer.appearance.boxes import NO_MARGINS, fill, vertical
from viewer.panels.charts.roofline import RooflinePlot
from viewer.panels.kernel.side_by_side import SideBySide

MIN_SIDES = 420  # px: every column of the table can be seen


class KernelPair(QWidget):
    """Shows nothing until ``show_pair``."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.comparison: KernelComparison | None = None
        self.sides = SideBySide()
        self.sides.setMinimumWidth(MIN_SIDES)
        self.roofline = RooflinePlot()
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(self.sides)
        split.addWidget(self.roofline)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        split.setChildrenCollapsible(False)
        fill(vertical(self, NO_MARGINS), split)

    def show_pair(self, before: KernelProfile, after: KernelProfile) -> None:
        self.comparison = compare_kernels(before, after)
        limits = [speed_of_light(kernel) for kernel in (before, after)]
        self.sides.show_rows(
            [kernel_name(kernel.name) for kernel in (before, after)],
            [VERDICTS[limit.bound] if limit is not None else "" for limit in limits],
            self.comparison.why,
            self.comparison.rows,
        )
        self.roofline.show_kernels([before, after])
        self.roofline.mark(1)
