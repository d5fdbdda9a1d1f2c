"""How many warps an SM would hold with other numbers of registers, sizes of blocks, and bytes of shared memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QScrollArea, QWidget

from parsers.model import F64, KernelProfile
from viewer.appearance import theme
from viewer.appearance.painted_chart import TEXT_HEIGHT, PaintedChart
from viewer.appearance.widgets import Label, vertical


class StepCurve(PaintedChart):
    """Shows ``title``, and below it values from 0 to ``full``."""

    margins = (34, 26, 14, 20)
    wanted = (260, 132)
    is_low = True

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._title = title
        self._x: F64 = np.zeros(0)
        self._y: F64 = np.zeros(0)
        self._full = 1.0
        self.now: tuple[float, float] | None = None

    def is_empty(self) -> bool:
        return not len(self._x)

    def show_curve(
        self, points: Sequence[tuple[float, float]], full: float, now: float | None, told: str
    ) -> None:
        """``points`` in the order of x; ``now`` is the x of today, ``told`` what that means in words."""
        self._x, self._y = (np.array([point[side] for point in points], float) for side in (0, 1))
        self._full = max(full, 1.0)
        place = (
            int(np.searchsorted(self._x, now, side="right")) - 1 if now is not None and len(points) else -1
        )
        self.now = (float(now), float(self._y[place])) if now is not None and place >= 0 else None
        self.setAccessibleDescription(told)
        self.setToolTip("")
        self.update()

    def draw(self, painter: QPainter) -> None:
        colors, area = theme.current(), self.room
        span = max(float(self._x[-1] - self._x[0]), 1.0)
        x = area.left() + (self._x - self._x[0]) / span * area.width()
        y = area.bottom() - self._y / self._full * area.height()
        self.draw_levels(painter, [(0.0, "0"), (1.0, f"{self._full:.0f}")])
        self.draw_ends(painter, f"{self._x[0]:,.0f}", f"{self._x[-1]:,.0f}")
        corners = [QPointF(area.left(), area.bottom())]
        for number in range(len(x)):
            corners += [QPointF(x[number], y[max(number - 1, 0)]), QPointF(x[number], y[number])]
        corners.append(QPointF(x[-1], area.bottom()))
        fill = QColor(colors.accent)
        fill.setAlpha(60)
        painter.setPen(QPen(colors.accent, 1.4))
        painter.setBrush(fill)
        painter.drawPolygon(QPolygonF(corners))
        self._draw_now(painter, area, span)
        painter.setPen(colors.text)
        painter.setFont(theme.font(12, QFont.Weight.DemiBold))
        painter.drawText(QPointF(0, 14), self._title)

    def _draw_now(self, painter: QPainter, area: QRectF, span: float) -> None:
        if self.now is None:
            return
        colors, (value, level) = theme.current(), self.now
        at = area.left() + (value - float(self._x[0])) / span * area.width()
        top = area.bottom() - level / self._full * area.height()
        painter.setPen(QPen(colors.text, 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(at, area.bottom()), QPointF(at, area.top()))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.text)
        painter.drawEllipse(QPointF(at, top), 4, 4)
        painter.setPen(colors.text)
        painter.drawText(
            QRectF(0, 2, area.right(), TEXT_HEIGHT),
            Qt.AlignmentFlag.AlignRight,
            f"now {value:,.0f}: {level:.0f} warps",
        )


CURVES = (
    ("Registers a thread", "launch__occupancy_per_register_count", "launch__registers_per_thread"),
    ("Threads per block", "launch__occupancy_per_block_size", "launch__block_size"),
    (
        "Shared memory per block, bytes",
        "launch__occupancy_per_shared_mem_size",
        "launch__shared_mem_per_block",
    ),
)


class OccupancyCurves(QScrollArea):
    """One curve for each thing that limits the warps on an SM; a note where the report has none."""

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setAccessibleName("Occupancy with other sizes")
        self.curves = {metric: StepCurve(title) for title, metric, _ in CURVES}
        self.note = Label("", "secondary", wrap=True)
        body = QWidget()
        column = vertical(body, (14, 10, 14, 10), 12)
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
            "Warps per SM if only one of these were different"
            if most
            else "The report has no occupancy curves; the section Occupancy (ncu --section Occupancy) records them."
        )
