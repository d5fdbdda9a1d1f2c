"""What joins two timelines: the phases of both steps, ribbons between equal ones, the linked cursor and its words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model import Lane, LaneKind
from parsers.model.units import duration, three_digits
from rules.comparison.bridge import ELSEWHERE
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache, painting
from viewer.comparison.phases import REST, WHOLE, Phase, StepRun, paired
from viewer.timeline.kinds.base import StyledRow, style_of
from viewer.timeline.names_column import NAMES_WIDTH, TEXT_LEFT
from viewer.timeline.state import TimelineState

MIN_HEIGHT = 92
BAR = 17
OPACITY = 0.16
READ_OUT_WIDTH = 330
READ_OUT_LINE = 16
PILL = 20
SAME = 0.005  # of the longer phase


class Ribbons(QWidget):
    """Between two timelines of equal width; times are ns of either recording."""

    def __init__(self, before: TimelineState, after: TimelineState) -> None:
        super().__init__()
        self._states = before, after
        self._steps: tuple[StepRun, StepRun] | None = None
        self._phases: tuple[tuple[Phase, ...], tuple[Phase, ...]] = ((), ())
        self._bold = TextCache(theme.font(12, QFont.Weight.DemiBold))
        self._text = TextCache(theme.font(12))
        self._small = TextCache(theme.font(theme.SECONDARY_PX, tabular=True))
        self.setMinimumHeight(MIN_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Phases of both steps, joined")
        for state in self._states:
            state.view_changed.connect(self.update)
            state.overlay_changed.connect(self.update)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(600, MIN_HEIGHT)

    def show_steps(self, steps: tuple[StepRun, StepRun] | None) -> None:
        self._steps = steps
        self._phases = (steps[0].phases(), steps[1].phases()) if steps is not None else ((), ())
        told = [f"{phase.label}: {_changed(phase, other)[0]}" for phase, other in paired(*self._phases)]
        self.setAccessibleDescription("; ".join(told))
        self.update()

    @property
    def pairs(self) -> list[tuple[Phase, Phase]]:
        return paired(*self._phases)

    def read_out(self) -> tuple[str, str, str] | None:
        """What the linked cursor says: where it is, and what each side does there; None while it is nowhere."""
        steps, cursors = self._steps, [state.cursor for state in self._states]
        if steps is None or cursors[0] is None or cursors[1] is None:
            return None
        into = cursors[0] - self._states[0].origin
        if into < 0:
            return None
        return (
            f"{duration(into)} into the step before",
            steps[0].said_at(cursors[0]),
            steps[1].said_at(cursors[1]),
        )

    def paintEvent(self, _: QPaintEvent) -> None:
        with painting(self) as painter:
            self._paint(painter)

    def _paint(self, painter: QPainter) -> None:
        colors = theme.current()
        painter.fillRect(self.rect(), colors.window)
        painter.setPen(colors.text)
        painter.setFont(self._bold.font)
        painter.save()
        painter.setClipRect(QRectF(NAMES_WIDTH, 0, self.width() - NAMES_WIDTH, self.height()))
        painter.translate(NAMES_WIDTH, 0)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for before, after in self.pairs:
            self._ribbon(painter, before, after)
        for state, phases, top in zip(self._states, self._phases, (0, self.height() - BAR), strict=True):
            self._bars(painter, state, phases, top)
        self._selected(painter)
        self._pills(painter)
        self._cursor(painter)
        painter.restore()
        if self._steps is not None:
            painter.setPen(colors.text_secondary)
            painter.setFont(self._text.font)
            for top in (0, self.height() - BAR):
                self._text.draw(
                    painter, self._steps[0].title, TEXT_LEFT, top + (BAR - self._text.height) / 2, 150
                )
        painter.fillRect(QRectF(NAMES_WIDTH - 1, 0, 1, self.height()), colors.line)

    def _edges(self, side: int, phase: Phase) -> tuple[float, float]:
        scale = self._states[side].scale
        left, right = scale.x(phase.start), scale.x(phase.end)
        return min(max(left, -20.0), scale.width + 20), min(max(right, -20.0), scale.width + 20)

    def _ribbon(self, painter: QPainter, before: Phase, after: Phase) -> None:
        (left, right), (below_left, below_right) = self._edges(0, before), self._edges(1, after)
        top, bottom = float(BAR), float(self.height() - BAR)
        middle = (top + bottom) / 2
        path = QPainterPath(QPointF(left, top))
        path.lineTo(right, top)
        path.cubicTo(right, middle, below_right, middle, below_right, bottom)
        path.lineTo(below_left, bottom)
        path.cubicTo(below_left, middle, left, middle, left, top)
        color = region_color(before.label)
        fill = QColor(color)
        fill.setAlphaF(OPACITY)
        painter.setPen(QPen(color, 1))
        painter.setBrush(fill)
        painter.drawPath(path)

    def _bars(self, painter: QPainter, state: TimelineState, phases: Sequence[Phase], top: int) -> None:
        side = 0 if state is self._states[0] else 1
        for phase in phases:
            left, right = self._edges(side, phase)
            box = QRectF(left, top + 1, max(right - left - 1, 1.5), BAR - 2)
            color = region_color(phase.label)
            painter.fillRect(box, color)
            visible = box.intersected(QRectF(0, top, state.scale.width, BAR))
            if visible.width() > 40:
                painter.setPen(theme.text_on(color))
                painter.setFont(self._small.font)
                room, whole = (
                    visible.width() - 8,
                    f"{phase.label}  {duration(float(phase.end - phase.start))}",
                )
                said = whole if self._small.width(whole) <= room else phase.label
                y = top + (BAR - self._small.height) / 2
                self._small.draw(painter, said, visible.left() + 5, y, room)

    def _pills(self, painter: QPainter) -> None:
        colors, taken = theme.current(), -4.0
        width = self._states[0].scale.width
        for before, after in sorted(self.pairs, key=lambda pair: pair[0].start):
            (left, right), (below_left, below_right) = self._edges(0, before), self._edges(1, after)
            told, factor, better = _changed(before, after)
            texts = (before.label, told, factor)
            room = sum(self._bold.width(text) for text in texts[::2]) + self._small.width(told) + 40
            middle = (max(left, 0.0) + min(right, width) + max(below_left, 0.0) + min(below_right, width)) / 4
            at = min(max(middle - room / 2, taken + 4, 4.0), width - room - 4)
            if at < max(taken, 2.0) or right < 0 or left > width:
                continue
            box = QRectF(at, (self.height() - PILL) / 2, room, PILL)
            painter.setPen(QPen(colors.line_strong, 1))
            painter.setBrush(colors.window)
            painter.drawRoundedRect(box, PILL / 2, PILL / 2)
            x, y = box.left() + 10, box.center().y() - self._bold.height / 2
            inks = (colors.text, colors.text_secondary, _tone(better))
            for text, ink, cache in zip(texts, inks, (self._bold, self._small, self._bold), strict=True):
                painter.setPen(ink)
                painter.setFont(cache.font)
                cache.draw(painter, text, x, y + (self._bold.height - cache.height) / 2, 400)
                x += cache.width(text) + 10
            taken = box.right()

    def _selected(self, painter: QPainter) -> None:
        ends = []
        for state, y in zip(self._states, (0.0, float(self.height())), strict=True):
            if state.selected < 0 or state.scene is None:
                return
            events = state.scene.trace.events
            middle = (float(events.start[state.selected]) + float(events.end[state.selected])) / 2
            ends.append(QPointF(min(max(state.scale.x(middle), -4000.0), state.scale.width + 4000), y))
        bend = QPointF(0, self.height() / 2)
        path = QPainterPath(ends[0])
        path.cubicTo(ends[0] + bend, ends[1] - bend, ends[1])
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for width, color in ((4.0, theme.current().window), (1.8, theme.current().accent)):
            painter.setPen(QPen(color, width))
            painter.drawPath(path)

    def _cursor(self, painter: QPainter) -> None:
        told = self.read_out()
        if self._states[0].cursor is None:
            return
        colors = theme.current()
        x = self._states[0].scale.x(self._states[0].cursor)
        painter.setPen(QPen(colors.accent, 1.4, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, 0), QPointF(x, self.height()))
        if told is None:
            return
        width = self._states[0].scale.width
        left = x + 8 if x + 8 + READ_OUT_WIDTH <= width else x - 8 - READ_OUT_WIDTH
        high = min(self.height() - 2 * BAR - 10, 3 * READ_OUT_LINE + 12)
        box = QRectF(left, (self.height() - high) / 2, READ_OUT_WIDTH, high)
        painter.setPen(QPen(colors.accent, 1))
        painter.setBrush(colors.window)
        painter.drawRoundedRect(box, 4, 4)
        y = box.top() + (box.height() - 3 * READ_OUT_LINE) / 2
        for name, text, ink in zip(
            ("", "before", "after"), told, (colors.text, colors.text, colors.text), strict=True
        ):
            cache = self._text if name else self._bold
            painter.setFont(cache.font)
            if name:
                painter.setPen(colors.text_secondary)
                cache.draw(painter, name, box.left() + 10, y, 60)
            painter.setPen(ink)
            indent = 54 if name else 0
            cache.draw(painter, text, box.left() + 10 + indent, y, READ_OUT_WIDTH - 20 - indent)
            y += READ_OUT_LINE


def _changed(before: Phase, after: Phase) -> tuple[str, str, int]:
    """ "57.4 ms → 4.54 ms", "12.6x", and whether that is better (-1), worse (1) or neither (0)."""
    one, other = float(before.end - before.start), float(after.end - after.start)
    told = f"{duration(one)} → {duration(other)}"
    if abs(other - one) < SAME * max(one, other):
        return told, "same", 0
    better = other < one
    return (
        told,
        f"{'▼' if better else '▲'} {three_digits(max(one, other) / max(min(one, other), 1.0))}x",
        -1 if better else 1,
    )


def _tone(better: int) -> QColor:
    colors = theme.current()
    return colors.good if better < 0 else colors.error if better > 0 else colors.text_secondary


def region_color(label: str) -> QColor:
    """The colour that ranges of this name have on the timeline."""
    colors = theme.current()
    if label in (REST, WHOLE, ELSEWHERE):
        return colors.grey
    style = style_of(LaneKind.REGION)
    return style.color(style.key(label), StyledRow(Lane(LaneKind.REGION, label), 0, 0), colors)
