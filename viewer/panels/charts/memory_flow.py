"""A diagram of the levels of memory and of the bytes that flow between them in one kernel."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen, QPolygonF

from parsers.model.units import percent, rate, size
from viewer.appearance import theme
from viewer.appearance.painted_chart import PaintedChart
from viewer.statistics.kernel_report import Flow, Level, MemoryFlow

BOX_WIDTH, MIN_BOX_WIDTH, BOX_HEIGHT = 84, 62, 62
MARGIN, MIN_GAP = 6, 60
MIN_ARROW, MAX_ARROW = 1.5, 11.0


class MemoryDiagram(PaintedChart):
    """SM, L1, L2 and DRAM from left to right; an arrow is as thick as its share of the largest flow."""

    wanted = (620, 112)
    is_low = True

    def __init__(self) -> None:
        super().__init__("Memory traffic")
        self._flow: MemoryFlow | None = None

    def show_flow(self, flow: MemoryFlow | None) -> None:
        self._flow = flow
        if flow is not None:
            parts = [
                f"{above.name} and {below.name}: {_text(each.read, flow.duration_ns)} read, "
                f"{_text(each.written, flow.duration_ns)} written"
                for above, below, each in zip(flow.levels, flow.levels[1:], flow.flows, strict=False)
            ]
            self.setAccessibleDescription("; ".join(parts))
            self.setToolTip("\n".join(parts))
        self.update()

    def is_empty(self) -> bool:
        return self._flow is None

    def boxes(self, count: int) -> list[QRectF]:
        """Where so many levels stand: narrower ones where the full width would be cut off."""
        room, gaps = self.width() - 2 * MARGIN, max(count - 1, 1)
        width = min(max((room - gaps * MIN_GAP) / max(count, 1), MIN_BOX_WIDTH), BOX_WIDTH)
        gap = max((room - count * width) / gaps, MIN_GAP)
        return [QRectF(MARGIN + index * (width + gap), 24, width, BOX_HEIGHT) for index in range(count)]

    def draw(self, painter: QPainter) -> None:
        flow = self._flow
        assert flow is not None
        boxes = self.boxes(len(flow.levels))
        most = max((each or 0.0 for pair in flow.flows for each in (pair.read, pair.written)), default=0.0)
        for level, box in zip(flow.levels, boxes, strict=True):
            self._box(painter, box, level)
        for between, left, right in zip(flow.flows, boxes, boxes[1:], strict=False):
            room = QRectF(left.right() + 4, 24, right.left() - left.right() - 8, BOX_HEIGHT)
            self._arrows(painter, room, between, most)

    def _box(self, painter: QPainter, box: QRectF, level: Level) -> None:
        colors = theme.current()
        painter.setPen(QPen(colors.line_strong, 1))
        painter.setBrush(colors.window)
        painter.drawRoundedRect(box, 5, 5)
        if level.busy_percent is not None:
            share = min(level.busy_percent / 100, 1.0)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.mixed(colors.accent, colors.window, 0.35))
            painter.drawRoundedRect(QRectF(box.x() + 1, box.bottom() - 5, (box.width() - 2) * share, 4), 2, 2)
        painter.setPen(colors.text)
        painter.setFont(theme.font(13, QFont.Weight.DemiBold))
        painter.drawText(box.adjusted(0, 5, 0, 0), Qt.AlignmentFlag.AlignHCenter, level.name)
        painter.setFont(theme.font(theme.SECONDARY_PX))
        painter.setPen(colors.text_secondary)
        lines = []
        if level.hit_percent is not None:
            lines.append(f"{level.hit_percent:.0f} % hits")
        if level.busy_percent is not None:
            lines.append(f"{percent(level.busy_percent / 100)} busy")
        painter.drawText(box.adjusted(0, 24, 0, 0), Qt.AlignmentFlag.AlignHCenter, "\n".join(lines))

    def _arrows(self, painter: QPainter, room: QRectF, flow: Flow, most: float) -> None:
        colors = theme.current()
        read, written = colors.family("gemm"), colors.family("copies")
        upper, lower = room.y() + room.height() * 0.32, room.y() + room.height() * 0.72
        self._arrow(painter, room.right(), room.left(), upper, flow.read, most, read)
        self._arrow(painter, room.left(), room.right(), lower, flow.written, most, written)
        painter.setFont(theme.font(theme.SECONDARY_PX))
        painter.setPen(colors.text_secondary)
        top = QRectF(room.x() - 20, room.y() - 22, room.width() + 40, 30)
        bottom = QRectF(room.x() - 20, room.bottom() - 4, room.width() + 40, 30)
        painter.drawText(top, Qt.AlignmentFlag.AlignHCenter, _labelled("read", flow.read))
        painter.drawText(bottom, Qt.AlignmentFlag.AlignHCenter, _labelled("write", flow.written))

    @staticmethod
    def _arrow(
        painter: QPainter,
        start: float,
        end: float,
        y: float,
        amount: float | None,
        most: float,
        color: QColor,
    ) -> None:
        if not amount:
            color = theme.current().line_strong
        thick = MIN_ARROW + (MAX_ARROW - MIN_ARROW) * ((amount or 0.0) / most if most else 0.0)
        towards = 1.0 if end > start else -1.0
        head = max(thick * 1.1, 5.0)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawRect(
            QRectF(min(start, end - towards * head), y - thick / 2, abs(end - start) - head, thick)
        )
        tip = [
            QPointF(end, y),
            QPointF(end - towards * head, y - head),
            QPointF(end - towards * head, y + head),
        ]
        painter.drawPolygon(QPolygonF(tip))


def _text(amount: float | None, duration_ns: float | None) -> str:
    if amount is None:
        return "not measured"
    speed = f" ({rate(amount / duration_ns * 1e9)})" if duration_ns and amount else ""
    return size(amount) + speed


def _labelled(what: str, amount: float | None) -> str:
    return "" if amount is None else f"{what} {size(amount)}"
