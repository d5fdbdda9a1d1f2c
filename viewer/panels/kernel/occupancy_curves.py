"""How many warps an SM would hold with other numbers of registers, sizes of blocks, and bytes of shared memory."""

from __future__ import annotations

from PySide6.QtWidgets import QScrollArea, QVBoxLayout, QWidget

from parsers.model import KernelProfile
from viewer.look.labels import Label
from viewer.panels.charts.step_curve import StepCurve

CURVES = (
    ("Registers a thread", "launch__occupancy_per_register_count", "launch__registers_per_thread"),
    ("Threads in a block", "launch__occupancy_per_block_size", "launch__block_size"),
    (
        "Bytes of shared memory a block",
        "launch__occupancy_per_shared_mem_size",
        "launch__shared_mem_per_block",
    ),
)


class OccupancyCurves(QScrollArea):
    """One curve for each thing that limits the warps on an SM; a note where the report has none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setAccessibleName("Occupancy with other sizes")
        self.curves = {metric: StepCurve(title) for title, metric, _ in CURVES}
        self.note = Label("", "secondary", wrap=True)
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(14, 10, 14, 10)
        column.setSpacing(12)
        column.addWidget(self.note)
        for curve in self.curves.values():
            column.addWidget(curve)
        column.addStretch(1)
        self.setWidget(body)

    def show_kernel(self, kernel: KernelProfile) -> None:
        """The curves of one launch, each with what it was launched with."""
        most = max((y for _, metric, _ in CURVES for _, y in kernel.instances.get(metric, ())), default=0.0)
        for title, metric, used in CURVES:
            points = [(float(x), y) for x, y in kernel.instances.get(metric, ()) if not isinstance(x, str)]
            curve = self.curves[metric]
            curve.setVisible(bool(points))
            now = kernel.number(used)
            curve.show_curve(
                sorted(points), most, now, f"{title}: {now:,.0f} now" if now is not None else title
            )
        self.note.setText(
            "Warps on an SM, were one of these different and all else the same"
            if most
            else "The report has no occupancy curves; the section Occupancy (ncu --section Occupancy) records them."
        )
