"""The left column: what each lane is, with its triangle, its second line, and counter values at the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPolygonF

from parsers.model.units import size
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache
from viewer.timeline.geometry.arrangement import GroupState
from viewer.timeline.kinds.base import shown_value
from viewer.timeline.memory.colors import color_of
from viewer.timeline.memory.stack import MemoryStack
from viewer.timeline.pixels import Shown
from viewer.timeline.scene import Scene

NAMES_WIDTH = 188
INDENT = 12
TRIANGLE = 7
TEXT_LEFT = 26
MIN_BESIDE_HEIGHT = 76  # pixels: in less a second line that does not fit says nothing beside the first
LEGEND_LINE = 15  # pixels
MIN_NAMED = 14  # pixels that a name takes
TWO_LINES = 33  # pixels: a lane at least this high has its second line below the first


class NamesColumn:
    """Draws the names of the visible tracks."""

    def __init__(self) -> None:
        self._bold = TextCache(theme.font(12, QFont.Weight.DemiBold), inside=True)
        self._regular = TextCache(theme.font(12), inside=True)
        self._small = TextCache(theme.font(theme.SECONDARY_PX), inside=True)
        self._figures = TextCache(theme.font(theme.SECONDARY_PX, tabular=True))

    def draw(
        self,
        painter: QPainter,
        scene: Scene,
        shown: list[Shown],
        height: int,
        cursor: float | None,
        hovered: str,
        covered: int = 0,
    ) -> None:
        """Draw into the rectangle from (0, 0) to (``NAMES_WIDTH``, ``height``).

        A name stays below the first ``covered`` pixels as long as a part of its lane does.
        """
        colors = theme.current()
        painter.fillRect(QRectF(0, 0, NAMES_WIDTH, height), colors.window)
        for each in shown:
            box = QRectF(0, each.top, NAMES_WIDTH - 1, each.placed.height)
            if each.placed.track.is_heading:
                painter.fillRect(box, colors.strip)
            elif each.placed.track.key == hovered:
                painter.fillRect(box, theme.mixed(colors.hover, colors.window, 0.6))
            painter.fillRect(QRectF(0, box.bottom() - 1, NAMES_WIDTH, 1), colors.line)
            box.setTop(max(box.top(), min(covered, box.bottom() - MIN_NAMED)))
            self._draw_one(painter, scene, each, box, cursor, hovered)
        painter.fillRect(QRectF(NAMES_WIDTH - 1, 0, 1, height), colors.line)

    def draw_heading(self, painter: QPainter, scene: Scene, heading: Shown, hovered: str) -> None:
        """A heading that stays while its lanes scroll below it."""
        box = QRectF(0, heading.top, NAMES_WIDTH - 1, heading.placed.height)
        colors = theme.current()
        painter.fillRect(box, colors.strip)
        painter.fillRect(QRectF(0, box.bottom() - 1, NAMES_WIDTH, 1), colors.line)
        self._draw_one(painter, scene, heading, box, None, hovered)

    def _draw_one(
        self, painter: QPainter, scene: Scene, shown: Shown, box: QRectF, cursor: float | None, hovered: str
    ) -> None:
        placed, track, colors = shown.placed, shown.placed.track, theme.current()
        quiet = placed.collapsed
        title_font = self._regular if quiet else self._bold
        room = NAMES_WIDTH - TEXT_LEFT - 10
        if box.height() < 17:
            cache = self._small
            painter.setFont(cache.font)
            painter.setPen(colors.text)
            cache.draw(
                painter, track.title, TEXT_LEFT, round(box.top() + (box.height() - cache.height) / 2), room
            )
            return
        foldable = not track.is_made and (
            track.is_heading or track.levels > 1 or placed.collapsed or track.small or track.key == hovered
        )
        first_line = box.top() + (
            (3 if box.height() < 38 else 5)
            if box.height() >= TWO_LINES
            else (box.height() - 1 - self._bold.height) / 2
        )
        if foldable:
            is_open = not placed.collapsed and placed.state is not GroupState.STRIP
            _triangle(painter, INDENT, first_line + self._bold.height / 2, is_open, colors.text_faint)
        painter.setFont(title_font.font)
        painter.setPen(colors.good if track.derived else colors.text_secondary if quiet else colors.text)
        title_font.draw(painter, track.title, TEXT_LEFT, round(first_line), room)
        subtitle = beside_title(scene, shown, cursor)
        legend: list[tuple[QColor, str]] = []
        if (stack := scene.stacks.get(track.counter)) is not None and not quiet:
            legend = _kinds(stack, cursor)
        elif track.derived and (made := scene.derived.get(track.key)) is not None:
            legend = list(zip(made.colors(colors), made.legend, strict=False))
        self._draw_legend(painter, legend, box, round(first_line + 2 * self._bold.height + 6))
        if not subtitle:
            return
        painter.setPen(colors.text_secondary)
        cache = self._small if scene.counter_of(track) is None else self._figures
        painter.setFont(cache.font)
        if box.height() >= TWO_LINES:
            cache.draw(painter, subtitle, TEXT_LEFT, round(first_line + self._bold.height + 1), room)
        else:
            used = title_font.width(track.title) + 8
            if room - used >= min(cache.width(subtitle), MIN_BESIDE_HEIGHT):
                y = round(first_line + (self._bold.height - cache.height) / 2 + 0.5)
                cache.draw(painter, subtitle, TEXT_LEFT + used, y, room - used)

    def _draw_legend(
        self, painter: QPainter, legend: Sequence[tuple[QColor, str]], box: QRectF, top: int
    ) -> None:
        painter.setFont(self._figures.font)
        for line, (color, text) in enumerate(legend):
            y = top + line * LEGEND_LINE
            if y + LEGEND_LINE > box.bottom():
                break
            painter.fillRect(QRectF(TEXT_LEFT, y + 3, 9, 9), color)
            painter.setPen(theme.current().text_secondary)
            self._figures.draw(painter, text, TEXT_LEFT + 15, y, NAMES_WIDTH - TEXT_LEFT - 20)


def beside_title(scene: Scene, shown: Shown, cursor: float | None) -> str:
    """What is said of a lane below its title; of an amount what it is at the cursor (ns), else the most there is."""
    track = shown.placed.track
    if (stack := scene.stacks.get(track.counter)) is not None:
        if cursor is not None:
            return size(sum(stack.at(round(cursor)).values()))
        return f"peak {size(stack.peak)}  {track.subtitle}".rstrip()
    if (counter := scene.counter_of(track)) is not None:
        if cursor is not None:
            return shown_value(counter.at(round(cursor)), counter.unit)
        largest = float(counter.value.max()) if len(counter.value) else None
        beside = "" if track.derived and shown.placed.height < TWO_LINES else track.subtitle
        return f"max {shown_value(largest, counter.unit)}  {beside}".rstrip()
    if shown.placed.hidden_levels and not shown.placed.collapsed and shown.placed.height >= TWO_LINES:
        return f"{track.subtitle}, {len(shown.placed.rows)} of {track.levels}"
    return track.subtitle


def _kinds(stack: MemoryStack, cursor: float | None) -> list[tuple[QColor, str]]:
    """What the bands of a lane of memory are, the uppermost first; at the cursor with their sizes."""
    colors, held = theme.current(), stack.at(round(cursor)) if cursor is not None else {}
    return [
        (color_of(kind, colors), f"{kind.value}  {size(held[kind])}" if held else kind.value)
        for kind in reversed(stack.kinds)
    ]


def _triangle(painter: QPainter, x: float, y: float, is_open: bool, color: QColor) -> None:
    half = TRIANGLE / 2
    points = (
        [QPointF(x, y - 2), QPointF(x + TRIANGLE, y - 2), QPointF(x + half, y + 2.5)]
        if is_open
        else [QPointF(x + 1.5, y - half), QPointF(x + 1.5, y + half), QPointF(x + 6, y)]
    )
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(color)
    painter.drawPolygon(QPolygonF(points))
    painter.setBrush(Qt.BrushStyle.NoBrush)
