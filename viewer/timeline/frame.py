"""The picture of all visible lanes: pixels from arrays, then the names that fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont, QImage, QPainter

from parsers.model.arrays import U32
from parsers.model.late import dataclass
from viewer.appearance import theme
from viewer.appearance.painted_chart import MIN_NAME_WIDTH, TextCache, painting
from viewer.timeline.gap_labels import GapLabels
from viewer.timeline.geometry.columns import Columns, grid
from viewer.timeline.geometry.layout import FOOT
from viewer.timeline.geometry.raster import ROUNDED_ROW, Lines
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.geometry.strips import Strips
from viewer.timeline.pixels import (
    EventRow,
    Idle,
    Picture,
    Plan,
    Shown,
    busy_of,
    draw_ground,
    idle_of,
    paint_busy,
    paint_counter,
    paint_derived,
    paint_lane_gaps,
    paint_over_gaps,
    paint_strip,
    plan,
    round_events,
    strip_of,
)
from viewer.timeline.scene import Scene, rgb

NAME_PX = 12
SMALL_NAME_PX = 10
MIN_TEXT_ROW = 12  # pixels: lower rows have no names
SMALL_TEXT_ROW = 16
MIN_WIDE_ROW = min(MIN_TEXT_ROW, ROUNDED_ROW)  # pixels: in lower rows nothing is done with what is wide
MIN_LABELLED = 26  # pixels: lower lanes have no labels in their gaps
MAX_NAMES = 1200


@dataclass(frozen=True, slots=True)
class Options:
    """How lanes are drawn, apart from what they show."""

    origin: float  # ns: what the ruler counts from
    gaps: bool


@dataclass(frozen=True, slots=True)
class _Name:
    text: str
    x: float
    y: float
    room: float
    small: bool
    ink: QColor


class FramePainter:
    """Makes the picture; keeps its memory and its texts between frames."""

    def __init__(self) -> None:
        self._names = TextCache(theme.font(NAME_PX))
        self._small_names = TextCache(theme.font(SMALL_NAME_PX))
        self._gap_labels = GapLabels(
            theme.font(NAME_PX, QFont.Weight.DemiBold), theme.font(theme.SECONDARY_PX)
        )
        self._pixels: U32 = np.empty((0, 0), np.uint32)
        self._image = QImage()
        self._strips = Strips()
        self._lines = Lines()
        self._plans: dict[str, Plan] = {}  # of the tracks that scroll, and of the pinned ones

    def paint(
        self,
        scene: Scene,
        scale: Scale,
        shown: list[Shown],
        pinned: list[Shown],
        height: int,
        ratio: float,
        options: Options,
        hurried: bool = False,
        heading: Shown | None = None,
    ) -> QImage:
        """The picture of the tracks for ``scale`` (in logical pixels), ``height`` logical pixels high.

        ``pinned`` tracks lie at the top, then the ``heading`` that is kept, both over those that scroll. The picture
        is valid until the next call. A ``hurried`` one, while the zoom changes, may be rough.
        """
        view = grid(scale.resized(max(round(scale.width * ratio), 1)))
        pixels = self._canvas(view.width, max(round(height * ratio), 1))
        self._image.setDevicePixelRatio(ratio)
        covered = pinned[-1].top + pinned[-1].placed.height if pinned else 0
        self._strips.begin(view, scene.colors, ratio, hurried=hurried)
        self._gap_labels.boxes.clear()
        ground, line = rgb(theme.current().window), max(round(ratio), 1)
        whole = Picture(pixels, view, ratio, self._strips, self._lines, ground, line)
        self._layer("", whole, scene, shown, options, QRectF(0, covered, scale.width, height - covered))
        if heading is not None:
            band = whole.block(heading.top, heading.placed.height)
            band[:] = rgb(theme.current().strip)
            band[-line:] = rgb(theme.current().line)
        if pinned:
            part = pixels[: round(covered * ratio)]
            top = Picture(part, view, ratio, self._strips, self._lines, ground, line)
            self._layer("pinned", top, scene, pinned, options, QRectF(0, 0, scale.width, covered))
            top.block(covered - 1, 1)[:] = rgb(theme.current().line_strong)
        return self._image

    def forget(self) -> None:
        """Let go of the recording that the last picture shows."""
        self._strips = Strips()
        self._plans.clear()

    @property
    def is_rough(self) -> bool:
        """Whether the last picture has rows that the same picture would show more exactly."""
        return self._strips.is_rough

    def look_ahead(self, rows: int) -> bool:
        """Prepare so many rows for a movement in either direction; whether there is more to do."""
        return self._strips.look_ahead(rows)

    @property
    def label_boxes(self) -> list[QRectF]:
        """Where the last picture has labels of gaps, in logical pixels."""
        return self._gap_labels.boxes

    def _canvas(self, width: int, height: int) -> U32:
        if self._pixels.shape != (height, width):
            self._pixels = np.empty((height, width), np.uint32)
            self._image = QImage(self._pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32)
        return self._pixels

    def _plan(self, layer: str, picture: Picture, scene: Scene, shown: list[Shown]) -> Plan:
        height, ratio = len(picture.pixels), picture.ratio
        now = (shown, scene.index, scene.colors, height, ratio, picture.ground)
        found = self._plans.get(layer)
        if found is None or found.of != now:
            found = self._plans[layer] = plan(now, scene, shown, height, ratio)
        return found

    def _layer(
        self, layer: str, picture: Picture, scene: Scene, shown: list[Shown], options: Options, clip: QRectF
    ) -> None:
        planned = self._plan(layer, picture, scene, shown)
        draw_ground(picture, planned, options.origin)
        names: list[_Name] = []
        self._gap_labels.begin()
        over: list[Callable[[], object]] = []  # what is painted over the lines, once these are there
        for each, rows in planned.tracks:
            if each.placed.track.lane >= 0:
                self._lane(picture, scene, each, rows, options, names, over)
            else:
                self._track(picture, scene, each, options, over)
        picture.lines.put(picture.pixels)
        for paint in over:
            paint()
        with painting(self._image) as painter:
            painter.setClipRect(clip)
            self._draw_names(painter, names)
            self._gap_labels.draw(painter, clip)

    def _track(
        self, picture: Picture, scene: Scene, shown: Shown, options: Options, over: list[Callable[[], object]]
    ) -> None:
        placed, track = shown.placed, shown.placed.track
        if track.is_heading:
            over.append(partial(paint_strip, picture, shown, strip_of(picture, scene, shown, options.gaps)))
        elif track.busy:
            row, busy = placed.rows[0], busy_of(picture, scene, track.device, options.gaps)
            over.append(partial(paint_busy, picture, busy, shown.top + row.top, row.height, False))
        elif track.counter >= 0:
            over.append(partial(paint_counter, picture, scene, shown))
        elif track.derived:
            over.append(partial(paint_derived, picture, scene, shown))

    def _lane(
        self,
        picture: Picture,
        scene: Scene,
        shown: Shown,
        rows: Sequence[EventRow],
        options: Options,
        names: list[_Name],
        over: list[Callable[[], object]],
    ) -> None:
        placed, track, view = shown.placed, shown.placed.track, picture.view
        over_gaps = track.first_of_device and options.gaps and not placed.collapsed
        if over_gaps and (idle := idle_of(picture, scene, track.device)) is not None:
            over.append(partial(paint_lane_gaps, picture, idle, shown.top, placed.height - 1))
            self._label_gaps(picture, scene, shown, idle)
        for row in rows:
            strip = picture.strips.strip(row.name, row.row, view)
            if strip.empty:
                continue
            if over_gaps:
                over.append(partial(paint_over_gaps, picture, row, strip.look(row.colors, view)))
            else:
                strip.draw(row.colors, view, picture.lines.add(row.place))
            if row.height >= MIN_WIDE_ROW:
                seen = strip.shown(view)
                if seen is not None and len(seen.wide):
                    over.append(partial(round_events, picture, row, seen))
                    if row.height >= MIN_TEXT_ROW:
                        self._collect(picture, scene, shown, row.name[1], seen, names)

    def _label_gaps(self, picture: Picture, scene: Scene, shown: Shown, idle: Idle) -> None:
        height, gaps = shown.placed.height - 1, scene.gaps[idle.device]
        seen = idle.strip.shown(picture.view) if height >= MIN_LABELLED else None
        if seen is not None and scene.idle is not None:
            area = QRectF(0, shown.top, picture.view.width / picture.ratio, height - FOOT)
            rows = shown.placed.rows
            below = height - FOOT - (rows[-1].top + rows[-1].height) if rows else 0
            self._gap_labels.collect(scene.idle, gaps, seen, area, below, picture.ratio, picture.view.step)

    def _collect(
        self, picture: Picture, scene: Scene, shown: Shown, depth: int, seen: Columns, names: list[_Name]
    ) -> None:
        """Take the names of a row's events that have room for some letters."""
        track, place = shown.placed.track, shown.placed.rows[depth]
        lane, row = track.lane, scene.index.row(track, depth)
        left = np.maximum(seen.left / picture.ratio, 0.0) + 5
        room = np.minimum(seen.right / picture.ratio, picture.view.width / picture.ratio) - left - 3
        roomy = np.flatnonzero(room >= MIN_NAME_WIDTH)
        if len(names) + len(roomy) > MAX_NAMES:
            roomy = roomy[np.argsort(-room[roomy])[: max(MAX_NAMES - len(names), 0)]]
        if not len(roomy) or row is None:
            return
        small = place.height < SMALL_TEXT_ROW
        cache = self._small_names if small else self._names
        event = seen.wide[roomy]
        inks, classes = scene.colors.shades(lane, depth).inks, scene.colors.classes(lane, row, event).tolist()
        y = round(shown.top + place.top + (place.height - cache.height) / 2)
        for index, name, kind in zip(roomy.tolist(), row.name[event].tolist(), classes, strict=True):
            text = scene.shown_name(lane, name)
            names.append(_Name(text, float(left[index]), y, float(room[index]), small, inks[kind]))

    def _draw_names(self, painter: QPainter, names: list[_Name]) -> None:
        for small, cache in ((False, self._names), (True, self._small_names)):
            painter.setFont(cache.font)
            pen: QColor | None = None
            for name in names:
                if name.small is small:
                    if name.ink is not pen:
                        pen = name.ink
                        painter.setPen(pen)
                    cache.draw(painter, name.text, name.x, name.y, name.room)
