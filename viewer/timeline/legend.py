"""The legend: what colours and hatchings on the lanes mean, as a panel over their lower right corner."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPen

from parsers.model import GPU_LANES
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from rules.analysis.idle.causes import Cause
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache
from viewer.timeline.geometry.gaps import hatching
from viewer.timeline.geometry.raster import HATCHING, TINT, blended
from viewer.timeline.kinds.base import lane_styles
from viewer.timeline.scene import DURATION_COLORS, DURATION_LABELS, Scene, rgb

LINE = 20.0
COLUMN = 196.0
SWATCH = 14
MARGIN = 10.0
PADDING = 12.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a swatch in ``color``, hatched like ``cause`` where there is one."""

    label: str
    color: QColor
    cause: Cause | None = None


def entries(scene: Scene) -> dict[str, list[Entry]]:
    """The headings of the legend with their entries: only what occurs in the recording."""
    found: dict[str, list[Entry]] = {}
    if scene.color_mode == "duration":
        pairs = zip(DURATION_LABELS, DURATION_COLORS, strict=True)
        found["Duration"] = [Entry(label, QColor(color)) for label, color in pairs]
    explained = sorted(
        (style for style in lane_styles() if style.heading), key=lambda each: each.kind not in GPU_LANES
    )
    for style in explained:
        known = found.setdefault(style.heading, [])
        labels = {entry.label for entry in known}
        for key, color in scene.colors.legend(style.kind):
            if (label := style.explained(key)) and label not in labels:
                labels.add(label)
                known.append(Entry(label, color))
    if scene.idle is not None and len(scene.idle):
        causes = sorted(set(distinct_values(scene.idle.cause).tolist()))
        found["Idle GPU"] = [
            Entry(scene.idle.label(Cause(each)), theme.current().cause(each), Cause(each)) for each in causes
        ]
    return {heading: lines for heading, lines in found.items() if lines}


def lines_in(height: float) -> int:
    """How many lines fit into so many pixels."""
    return int((height - 20 - PADDING * 1.5) // LINE)


def arranged(groups: dict[str, list[Entry]], columns: int, lines: int) -> list[list[str | Entry]]:
    """A column for each group with its heading first; where these do not fit, columns that are filled one after the
    other, and if that is not enough the last line says how many entries are missing."""
    whole: list[list[str | Entry]] = [[heading, *entries] for heading, entries in groups.items()]
    if columns < 1 or lines < 2:
        return []
    if len(whole) <= columns and all(len(column) <= lines for column in whole):
        return whole
    flat = [line for column in whole for line in column]
    room = columns * lines
    if len(flat) > room:
        missing = sum(isinstance(line, Entry) for line in flat[room - 1 :])
        flat = [*flat[: room - 1], f"and {missing} more (enlarge)"]
    even = ceil(len(flat) / columns)
    flowing = [flat[start : start + even] for start in range(0, len(flat), even)]
    for column, after in pairwise(flowing):
        if isinstance(column[-1], str) and len(after) < lines:  # a heading stays with its entries
            after.insert(0, column.pop())
    return flowing


def top_of_legend(legend: float, height: float, lanes: Sequence[tuple[float, float]]) -> float:
    """At the bottom, unless it hides less of these lanes, each (top, bottom), at the top."""

    def hidden(top: float) -> float:
        return sum(max(min(below, top + legend) - max(above, top), 0.0) for above, below in lanes)

    return min((height - legend - MARGIN, MARGIN), key=hidden)


class Legend:
    """Draws the entries in columns."""

    def __init__(self) -> None:
        self._bold = TextCache(theme.font(theme.SECONDARY_PX, QFont.Weight.DemiBold))
        self._text = TextCache(theme.font(theme.SECONDARY_PX))

    def draw(
        self,
        painter: QPainter,
        scene: Scene,
        width: float,
        height: float,
        lanes: Sequence[tuple[float, float]],
    ) -> None:
        """Draw into that right corner of ``width`` x ``height`` where less of ``lanes`` (top, bottom) is hidden."""
        columns = arranged(entries(scene), int((width - 20 - PADDING) // COLUMN), lines_in(height))
        if not columns:
            return
        colors = theme.current()
        longest = max(len(lines) for lines in columns)
        size = QRectF(0, 0, COLUMN * len(columns) + PADDING, LINE * longest + PADDING * 1.5)
        size.moveTopRight(QPointF(width - 10, top_of_legend(size.height(), height, lanes)))
        painter.setPen(QPen(colors.line_strong, 1))
        painter.setBrush(colors.panel)
        painter.drawRoundedRect(size.adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        for number, lines in enumerate(columns):
            x, y = size.left() + PADDING + number * COLUMN, size.top() + PADDING
            for line, entry in enumerate(lines):
                if isinstance(entry, str):
                    painter.setPen(colors.text_secondary)
                    painter.setFont(self._bold.font)
                    self._bold.draw(painter, entry, x, y + line * LINE, COLUMN - 20)
                else:
                    painter.setFont(self._text.font)
                    self._draw_entry(painter, entry, x, y + line * LINE)

    def _draw_entry(self, painter: QPainter, entry: Entry, x: float, y: float) -> None:
        box = QRectF(round(x), round(y), SWATCH, SWATCH)
        painter.setPen(Qt.PenStyle.NoPen)
        if entry.cause is None:
            painter.setBrush(entry.color)
            painter.drawRoundedRect(box, 2, 2)
        else:
            painter.drawImage(box.topLeft(), swatch(entry.cause, painter.device().devicePixelRatioF()))
        painter.setPen(theme.current().text)
        y = round(y + (SWATCH - self._text.height) / 2)
        self._text.draw(painter, entry.label, x + SWATCH + 8, y, COLUMN - SWATCH - 20)


def swatch(cause: Cause, ratio: float) -> QImage:
    """A small picture of how idle time of this cause looks."""
    colors, line = theme.current(), max(round(ratio), 1)
    size = round(SWATCH * ratio)
    tile = np.tile(hatching(line)[cause], (1 + size // 24, 1 + size // 24))[:size, :size]
    shades = blended(
        np.array([rgb(colors.cause(cause))], np.uint32), rgb(colors.window), np.array([TINT, HATCHING, 1.0])
    )[0]
    pixels = np.where(tile, shades[1], shades[0])
    pixels[-2 * line :] = shades[2]
    image = QImage(np.ascontiguousarray(pixels).data, size, size, 4 * size, QImage.Format.Format_RGB32).copy()
    image.setDevicePixelRatio(ratio)
    return image
