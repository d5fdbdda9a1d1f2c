"""What lies over the lanes: selection, highlighted evidence, the arrow from launch to kernel, the cursor line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath, QPen, QRegion

from parsers.model.arrays import I64, distinct_values
from parsers.model.units import duration, how_many
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache
from viewer.timeline.geometry.derived import Frame
from viewer.timeline.geometry.row_index import count_in
from viewer.timeline.geometry.scale import covered_pixels
from viewer.timeline.memory.painting import MemoryLabels
from viewer.timeline.pixels import Shown, memory_area
from viewer.timeline.scene import Scene
from viewer.timeline.state import TimelineState

MAX_MARKS = 400
MAX_ARROWS = 40
PALE = 165  # of 255
OTHERS = 115  # of 255: how pale what is no answer is
ENDS = "the recording ends"
AREA_LABEL = 24  # pixels high
WIDE_MARK = 24  # pixels: a wider mark is an outline only, so that the colours under it stay true


class Overlays:
    """Draws over the picture of the lanes; coordinates are those of the lanes, without the names."""

    def __init__(self, state: TimelineState) -> None:
        self._state = state
        self._bold = TextCache(theme.font(12, QFont.Weight.DemiBold))
        self._small = TextCache(theme.font(theme.SECONDARY_PX, tabular=True))
        self._count: tuple[object, int] = (None, 0)
        self._memory = MemoryLabels()
        self._pale: tuple[tuple[object, ...], QRegion] = ((), QRegion())

    def draw(self, painter: QPainter, shown: list[Shown], height: int, labels: Sequence[QRectF] = ()) -> None:
        """Draw everything that is selected or marked; what outlines gaps leaves the ``labels`` in them readable."""
        scene = self._state.scene
        if scene is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._draw_outside(painter, height)
        self._draw_pale(painter, scene, shown)
        self._draw_bookmarks(painter, height)
        painter.save()
        self._keep_clear(painter, labels, height)
        self._draw_memory(painter, scene, shown)
        area = self._draw_area(painter, shown, height)
        for each in shown if scene.derived else ():
            made = scene.derived.get(each.placed.track.key) if each.placed.track.derived else None
            if made is not None and made.frame is not None:
                self._draw_prediction(painter, each, made.frame)
            if made is not None and made.outline is not None:
                self._draw_outline(painter, each, made.outline)
        by_lane = _by_lane(shown) if self._state.evidence or self._state.selected >= 0 else {}
        if self._state.evidence:
            self._draw_evidence(painter, scene, by_lane)
        self._draw_gap(painter, scene, shown)
        painter.restore()
        if self._state.selected >= 0:
            self._draw_links(painter, scene, by_lane, height)
            self._draw_selected(painter, scene, by_lane)
        if area is not None:
            self._draw_area_label(painter, scene, area, height, labels)
        self._draw_cursor(painter, height)

    def _draw_outside(self, painter: QPainter, height: int) -> None:
        """What is out of focus is pale, and where the recording ends within the view, it says so."""
        state, colors = self._state, theme.current()
        if state.focus is not None:
            left, right = (min(max(state.scale.x(when), 0.0), state.scale.width) for when in state.focus)
            pale = QColor(colors.window)
            pale.setAlpha(PALE)
            painter.fillRect(QRectF(0, 0, left, height), pale)
            painter.fillRect(QRectF(right, 0, state.scale.width - right, height), pale)
        end = state.scale.x(state.end)
        if state.limits is not None and end + self._small.width(ENDS) + 16 < state.scale.width:
            painter.setPen(colors.text_secondary)
            painter.setFont(self._small.font)
            self._small.draw(painter, ENDS, max(end, 0.0) + 8, (height - self._small.height) / 2, 400)

    def _draw_pale(self, painter: QPainter, scene: Scene, shown: list[Shown]) -> None:
        """While lanes stand for some events, all others are pale."""
        made = scene.derived.values()
        answers = [each.events for each in made if each.events is not None and len(each.events)]
        if not answers:
            return
        lanes = [each for each in shown if each.placed.track.lane >= 0]
        places = tuple((each.placed.track.lane, each.top, each.placed.height) for each in lanes)
        now = (self._state.scale, places, *map(id, answers))
        if self._pale[0] != now:
            self._pale = now, self._others(scene, lanes, distinct_values(np.concatenate(answers)))
        veil = QColor(theme.current().window)
        veil.setAlpha(OTHERS)
        painter.save()
        painter.setClipRegion(self._pale[1], Qt.ClipOperation.IntersectClip)
        painter.fillRect(self._pale[1].boundingRect(), veil)
        painter.restore()

    def _others(self, scene: Scene, lanes: list[Shown], answers: I64) -> QRegion:
        """Where lanes have no event of the answers."""
        scale, events = self._state.scale, scene.trace.events
        pale = QRegion()
        answers = answers[(events.end[answers] >= scale.t0) & (events.start[answers] <= scale.t1)]
        for each in lanes:
            pale += QRect(0, each.top, round(scale.width) + 1, each.placed.height - 1)
            mine = answers[events.lane[answers] == each.placed.track.lane]
            for row in each.placed.rows if len(mine) else ():
                inside = mine[events.depth[mine] == row.depth]
                for left, right in covered_pixels(*events.spans(inside), scale):
                    pale -= QRect(left, each.top + row.top, right - left, row.height)
        return pale

    def _draw_memory(self, painter: QPainter, scene: Scene, shown: list[Shown]) -> None:
        for each in shown if scene.stacks else ():
            stack = scene.stacks.get(each.placed.track.counter)
            if stack is not None and not each.placed.collapsed:
                top, height = memory_area(each)
                area = QRectF(0, top, self._state.scale.width, height)
                self._memory.draw(painter, stack, stack.columns(self._state.scale), self._state.scale, area)
                moment = self._state.selection.moment
                if moment is not None and moment.device == each.placed.track.device:
                    x = round(self._state.scale.x(moment.when)) + 0.5
                    painter.setPen(QPen(theme.current().text, 1.2, Qt.PenStyle.DashLine))
                    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))

    def _keep_clear(self, painter: QPainter, labels: Sequence[QRectF], height: int) -> None:
        if labels and (self._state.evidence or self._state.gap >= 0 or self._state.area is not None):
            free = QRegion(0, 0, round(self._state.scale.width) + 1, height)
            for box in labels:
                free -= QRegion(box.toAlignedRect())
            painter.setClipRegion(free, Qt.ClipOperation.IntersectClip)

    def box_of(self, scene: Scene, event: int, by_lane: dict[int, Shown]) -> QRectF | None:
        """Where an event is drawn, unclipped in time; None while its lane or level is not visible."""
        events = scene.trace.events
        shown = by_lane.get(int(events.lane[event]))
        if shown is None:
            return None
        depth = scene.level_of(shown.placed.track, event)
        row = next((row for row in shown.placed.rows if row.depth == depth), None)
        if row is None:
            return None
        scale = self._state.scale
        left, right = scale.x(float(events.start[event])), scale.x(float(events.end[event]))
        return QRectF(left, shown.top + row.top, max(right - left, 2.0), row.height)

    def _draw_selected(self, painter: QPainter, scene: Scene, by_lane: dict[int, Shown]) -> None:
        box = self.box_of(scene, self._state.selected, by_lane)
        if box is None:
            return
        box = _clipped(box, self._state.scale.width)
        colors = theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colors.window, 4))
        painter.drawRoundedRect(box.adjusted(-0.5, -0.5, 0.5, 0.5), 3, 3)
        painter.setPen(QPen(colors.text, 2))
        painter.drawRoundedRect(box.adjusted(-0.5, -0.5, 0.5, 0.5), 3, 3)

    def _draw_links(self, painter: QPainter, scene: Scene, by_lane: dict[int, Shown], height: int) -> None:
        """The arrow between the selected operation and its launch, in either direction."""
        links, selected = scene.trace.links, self._state.selected
        launch = int(links.launch_of(np.array([selected], np.int64))[0])
        pairs = [(launch, selected)] if launch >= 0 else []
        if not pairs:
            pairs = [
                (selected, operation) for operation in links.operations_of(selected)[:MAX_ARROWS].tolist()
            ]
        for source, target in pairs:
            self._arrow(painter, scene, by_lane, source, target, height)

    def _arrow(
        self,
        painter: QPainter,
        scene: Scene,
        by_lane: dict[int, Shown],
        source: int,
        target: int,
        height: int,
    ) -> None:
        start, end = self.box_of(scene, source, by_lane), self.box_of(scene, target, by_lane)
        if start is None and end is None:
            return
        scale, events, colors = self._state.scale, scene.trace.events, theme.current()
        begin = QPointF(scale.x(float(events.start[source])), start.bottom() if start is not None else -6)
        finish = QPointF(scale.x(float(events.start[target])), end.top() if end is not None else height + 6)
        if start is not None and end is not None and end.top() < start.top():
            begin, finish = QPointF(begin.x(), start.top()), QPointF(finish.x(), end.bottom())
        begin.setX(min(max(begin.x(), -4000.0), scale.width + 4000))
        finish.setX(min(max(finish.x(), -4000.0), scale.width + 4000))
        bend = max(abs(finish.y() - begin.y()) * 0.5, 12.0) * (1 if finish.y() >= begin.y() else -1)
        path = QPainterPath(begin)
        path.cubicTo(begin + QPointF(0, bend), finish - QPointF(0, bend), finish)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colors.window, 4))
        painter.drawPath(path)
        painter.setPen(QPen(colors.accent, 1.8))
        painter.drawPath(path)
        if end is not None:
            down = 1 if finish.y() >= begin.y() else -1
            head = QPainterPath(finish)
            head.lineTo(finish + QPointF(-4, -7 * down))
            head.lineTo(finish + QPointF(4, -7 * down))
            head.closeSubpath()
            painter.setBrush(colors.accent)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawPath(head)
        if start is not None:
            painter.setPen(QPen(colors.accent, 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            other = start if source != self._state.selected else end
            if other is not None:
                painter.drawRoundedRect(_clipped(other, scale.width).adjusted(-0.5, -0.5, 0.5, 0.5), 3, 3)

    def _draw_outline(self, painter: QPainter, shown: Shown, outline: tuple[int, int, int]) -> None:
        number, start, end = outline
        row = shown.placed.rows[number]
        left, right = self._state.scale.x(start), self._state.scale.x(end)
        box = QRectF(left - 2, shown.top + row.top - 2, right - left + 4, row.height + 4)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.current().text, 1.6))
        painter.drawRect(_clipped(box, self._state.scale.width))

    def _draw_prediction(self, painter: QPainter, shown: Shown, frame: Frame) -> None:
        """A dashed frame around what would run, and an arrow over the time that would be saved."""
        scale, colors = self._state.scale, theme.current()
        left, right, until = (scale.x(when) for when in (frame.start, frame.end, frame.recorded_end))
        box = _clipped(QRectF(left, shown.top + 2, right - left, shown.placed.height - 5), scale.width)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colors.good, 1.2, Qt.PenStyle.DashLine))
        painter.drawRect(box)
        middle = box.center().y()
        begin, finish = max(right + 3, 0.0), min(until, scale.width)
        if finish - begin > 4:
            painter.drawLine(QPointF(begin, middle), QPointF(finish, middle))
            painter.setPen(QPen(colors.good, 1.2))
            painter.drawLine(QPointF(finish, box.top()), QPointF(finish, box.bottom()))
        width = self._bold.width(frame.caption)
        if finish - begin > width + 40:
            pill = QRectF((begin + finish - width) / 2 - 9, middle - 11, width + 18, 22)
            painter.setBrush(colors.window)
            painter.drawRoundedRect(pill, 11, 11)
            painter.setPen(colors.good)
            painter.setFont(self._bold.font)
            self._bold.draw(
                painter, frame.caption, pill.left() + 9, pill.center().y() - self._bold.height / 2, width + 6
            )

    def _draw_evidence(self, painter: QPainter, scene: Scene, by_lane: dict[int, Shown]) -> None:
        scale, colors = self._state.scale, theme.current()
        glow = QColor(colors.accent)
        glow.setAlpha(38)
        for place in self._state.evidence_in_view(MAX_MARKS):
            left, right = scale.x(place.start), scale.x(place.end)
            shown = by_lane.get(place.lane)
            if shown is None or right < 0 or left > scale.width:
                continue
            box = self.box_of(scene, place.event, by_lane) if place.event >= 0 else None
            if box is None:
                box = QRectF(left, shown.top + 2, max(right - left, 2.0), shown.placed.height - 5)
            box = _clipped(box, scale.width)
            painter.setBrush(glow if box.width() < WIDE_MARK else Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colors.accent, 1.6))
            painter.drawRoundedRect(box.adjusted(-1, -1, 1, 1), 3, 3)

    def _draw_gap(self, painter: QPainter, scene: Scene, shown: list[Shown]) -> None:
        state = self._state
        if state.gap < 0 or scene.idle is None or state.gap >= len(scene.idle):
            return
        device = int(scene.idle.device[state.gap])
        left, right = (
            state.scale.x(float(scene.idle.start[state.gap])),
            state.scale.x(float(scene.idle.end[state.gap])),
        )
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.current().text, 2))
        for each in shown:
            if each.placed.track.shows_gaps and each.placed.track.device == device:
                box = QRectF(left, each.top + 1, max(right - left, 2.0), each.placed.height - 3)
                painter.drawRoundedRect(_clipped(box, state.scale.width), 3, 3)

    def _draw_area(self, painter: QPainter, shown: list[Shown], height: int) -> QRectF | None:
        """Where the selected area is; None while nothing of it is visible."""
        area, scale = self._state.area, self._state.scale
        if area is None:
            return None
        left, right = max(scale.x(area.start), -2.0), min(scale.x(area.end), scale.width + 2)
        if right < 0 or left > scale.width:
            return None
        tops = [(s.top, s.top + s.placed.height) for s in shown if s.placed.track.lane in area.lanes]
        top, bottom = (min(t for t, _ in tops), max(b for _, b in tops)) if tops else (0, height)
        if area.lanes and not tops:
            return None
        colors = theme.current()
        fill = QColor(colors.accent)
        fill.setAlpha(34)
        painter.setBrush(fill)
        painter.setPen(QPen(colors.accent, 1))
        painter.drawRect(QRectF(left, top + 0.5, right - left, bottom - top - 1))
        return QRectF(left, top, right - left, bottom - top)

    def _draw_area_label(
        self, painter: QPainter, scene: Scene, where: QRectF, height: int, labels: Sequence[QRectF]
    ) -> None:
        """How long the area is and how many events it holds, over everything else."""
        area, colors = self._state.area, theme.current()
        assert area is not None
        if self._count[0] != area:
            lanes = area.lanes or range(len(scene.trace.lanes))
            self._count = area, count_in(scene.trace.events, lanes, area.start, area.end)
        first, second = duration(area.duration), how_many(self._count[1], "event")
        width = self._bold.width(first) + 10 + self._small.width(second) + 16
        x = min(max(where.center().x() - width / 2, 2), self._state.scale.width - width - 2)
        box = free_place(QRectF(round(x), 0, width, AREA_LABEL), where, height, labels)
        painter.setPen(QPen(colors.accent, 1))
        painter.setBrush(colors.window)
        painter.drawRoundedRect(box, 4, 4)
        painter.setPen(colors.text)
        painter.setFont(self._bold.font)
        self._bold.draw(painter, first, box.left() + 8, box.top() + 4, 200)
        painter.setPen(colors.text_secondary)
        painter.setFont(self._small.font)
        self._small.draw(painter, second, box.left() + 18 + self._bold.width(first), box.top() + 5, 200)

    def _draw_bookmarks(self, painter: QPainter, height: int) -> None:
        painter.setPen(QPen(theme.current().accent, 1, Qt.PenStyle.DashLine))
        for mark in self._state.bookmarks:
            x = self._state.scale.x(mark.start)
            if 0 <= x <= self._state.scale.width:
                painter.drawLine(QPointF(round(x) + 0.5, 0), QPointF(round(x) + 0.5, height))

    def _draw_cursor(self, painter: QPainter, height: int) -> None:
        if self._state.cursor is None:
            return
        x = round(self._state.scale.x(self._state.cursor)) + 0.5
        line = QColor(theme.current().text)
        line.setAlpha(90)
        painter.setPen(QPen(line, 1))
        painter.drawLine(QPointF(x, 0), QPointF(x, height))


def _by_lane(shown: Sequence[Shown]) -> dict[int, Shown]:
    tracks = ((each, each.placed.track) for each in shown)
    return {lane: each for each, track in tracks for lane in (track.lane, track.calls) if lane >= 0}


def free_place(box: QRectF, where: QRectF, height: int, labels: Sequence[QRectF]) -> QRectF:
    """``box`` below ``where``, above it or inside it: the first of these that is in view and covers no label."""
    below, above = where.bottom() + 5, where.top() - box.height() - 5
    inside = where.top() + 5, where.bottom() - box.height() - 5
    places = [
        box.translated(0, round(top) - box.top())
        for top in (below, above, *inside)
        if 2 <= top <= height - box.height() - 2
    ]
    free = (place for place in places if not any(place.intersects(label) for label in labels))
    return next(free, places[0] if places else box.translated(0, 5 - box.top()))


def _clipped(box: QRectF, width: float) -> QRectF:
    """Cut to a little more than the view: Qt draws very wide shapes slowly and imprecisely."""
    left, right = max(box.left(), -20.0), min(box.right(), width + 20.0)
    return QRectF(left, box.top(), max(right - left, 1.0), box.height())
