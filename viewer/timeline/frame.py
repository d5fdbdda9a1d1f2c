"""Paints the lanes: pixels from arrays in one picture, then the names that fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont, QImage, QPainter

from viewer import theme
from viewer.timeline.gap_labels import GapLabels
from viewer.timeline.geometry.columns import Columns, columns
from viewer.timeline.geometry.counters import bounds, counter_columns
from viewer.timeline.geometry.layout import FOOT, Placed
from viewer.timeline.geometry.raster import density_table, paint_curve, paint_gaps, paint_row
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.geometry.ticks import ticks
from viewer.timeline.labels import TextCache
from viewer.timeline.scene import Scene, rgb

U32 = npt.NDArray[np.uint32]
NAME_PX = 12
SMALL_NAME_PX = 10
LEAST_TEXT_ROW = 12
MOST_NAMES = 1500


@dataclass(frozen=True, slots=True)
class Shown:
    """A track and where its top is in the picture, in logical pixels."""

    placed: Placed
    top: int


@dataclass(frozen=True, slots=True)
class _Name:
    text: str
    x: float
    y: float
    room: float
    small: bool
    ink: QColor


class FramePainter:
    """Makes the picture of all visible lanes; keeps its memory and its texts between frames."""

    def __init__(self) -> None:
        self._names = TextCache(theme.font(NAME_PX))
        self._small_names = TextCache(theme.font(SMALL_NAME_PX))
        self._gap_labels = GapLabels(
            theme.font(NAME_PX, QFont.Weight.DemiBold), theme.font(theme.SECONDARY_PX)
        )
        self._pixels: U32 = np.empty((0, 0), np.uint32)
        self._image = QImage()

    def paint(
        self,
        scene: Scene,
        scale: Scale,
        shown: list[Shown],
        pinned: list[Shown],
        height: int,
        ratio: float,
        *,
        origin: float,
        gaps: bool,
    ) -> QImage:
        """The picture of the tracks for ``scale`` (in logical pixels), ``height`` logical pixels high.

        ``pinned`` tracks lie at the top, over those that scroll.
        """
        fine = scale.resized(max(round(scale.width * ratio), 1))
        pixels = self._canvas(int(fine.width), max(round(height * ratio), 1))
        covered = pinned[-1].top + pinned[-1].placed.height if pinned else 0
        painter = QPainter()
        self._layer(
            pixels,
            scene,
            scale,
            fine,
            shown,
            ratio,
            origin,
            gaps,
            painter,
            QRectF(0, covered, scale.width, height),
        )
        if pinned:
            top = pixels[: round(covered * ratio)]
            self._layer(
                top,
                scene,
                scale,
                fine,
                pinned,
                ratio,
                origin,
                gaps,
                painter,
                QRectF(0, 0, scale.width, covered),
            )
            pixels[max(round(covered * ratio) - 1, 0) : round(covered * ratio)] = rgb(
                theme.current().line_strong
            )
        return self._image

    def _layer(
        self,
        pixels: U32,
        scene: Scene,
        scale: Scale,
        fine: Scale,
        shown: list[Shown],
        ratio: float,
        origin: float,
        gaps: bool,
        painter: QPainter,
        clip: QRectF,
    ) -> None:
        pixels.fill(rgb(theme.current().window))
        self._grid(pixels, scale, shown, ratio, origin)
        names: list[_Name] = []
        self._gap_labels.begin()
        for each in shown:
            self._track(pixels, scene, fine, each, ratio, names, gaps)
        self._image.setDevicePixelRatio(ratio)
        painter.begin(self._image)
        painter.setClipRect(clip)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._draw_names(painter, names)
        self._gap_labels.draw(painter)
        painter.end()

    def _canvas(self, width: int, height: int) -> U32:
        if self._pixels.shape != (height, width):
            self._pixels = np.empty((height, width), np.uint32)
            self._image = QImage(self._pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32)
        return self._pixels

    def _grid(self, pixels: U32, scale: Scale, shown: list[Shown], ratio: float, origin: float) -> None:
        line = np.uint32(rgb(theme.current().line))
        thick = max(round(ratio), 1)
        for when in ticks(scale, origin).times:
            x = round(scale.x(when) * ratio)
            if 0 <= x < pixels.shape[1]:
                pixels[:, x : x + thick] = line
        strip = np.uint32(rgb(theme.current().strip))
        for each in shown:
            top, bottom = round(each.top * ratio), round((each.top + each.placed.height) * ratio)
            if each.placed.track.is_heading:
                pixels[max(top, 0) : max(bottom, 0)] = strip
            pixels[max(bottom - thick, 0) : max(bottom, 0)] = line

    def _track(
        self,
        pixels: U32,
        scene: Scene,
        fine: Scale,
        shown: Shown,
        ratio: float,
        names: list[_Name],
        gaps: bool,
    ) -> None:
        track = shown.placed.track
        if track.is_heading:
            self._strip(pixels, scene, fine, shown, ratio, gaps)
        elif track.counter >= 0:
            self._counter(pixels, scene, fine, shown, ratio)
        else:
            if track.first_of_device and gaps and not shown.placed.collapsed:
                self._gaps(pixels, scene, fine, shown, ratio, track.device)
            for row in shown.placed.rows:
                block = _block(pixels, shown.top + row.top, row.height, ratio)
                rows = scene.index.rows[track.lane]
                if not len(block) or row.depth >= len(rows):
                    continue
                seen = columns(rows[row.depth], fine)
                if seen is None:
                    continue
                shades = scene.shades(track.lane, row.depth)
                classes = scene.classes(track.lane, rows[row.depth], np.maximum(seen.event, 0))
                paint_row(
                    block, seen, classes, shades.table, rgb(theme.current().window), max(round(ratio), 1)
                )
                if row.height >= LEAST_TEXT_ROW and len(seen.wide):
                    self._collect(
                        names, scene, track.lane, row.depth, seen, shown.top + row.top, row.height, ratio
                    )

    def _collect(
        self,
        names: list[_Name],
        scene: Scene,
        lane: int,
        depth: int,
        seen: Columns,
        top: int,
        height: int,
        ratio: float,
    ) -> None:
        small = height < 16
        cache = self._small_names if small else self._names
        width = seen.coverage.shape[0] / ratio
        row = scene.index.rows[lane][depth]
        left = np.maximum(seen.left / ratio, 0.0) + 5
        room = np.minimum(seen.right / ratio, width) - left - 3
        roomy = np.flatnonzero(room >= 26)
        if len(names) + len(roomy) > MOST_NAMES:
            roomy = roomy[np.argsort(-room[roomy])[: max(MOST_NAMES - len(names), 0)]]
        if not len(roomy):
            return
        shades = scene.shades(lane, depth)
        classes = scene.classes(lane, row, seen.wide[roomy])
        y = round(top + (height - cache.height) / 2)
        for place, name, kind in zip(
            roomy.tolist(), row.name[seen.wide[roomy]].tolist(), classes.tolist(), strict=True
        ):
            text = scene.shown_name(lane, name)
            names.append(_Name(text, float(left[place]), y, float(room[place]), small, shades.inks[kind]))

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

    def _gaps(self, pixels: U32, scene: Scene, fine: Scale, shown: Shown, ratio: float, device: int) -> None:
        row = scene.gaps.get(device)
        seen = columns(row, fine) if row is not None else None
        if row is None or seen is None:
            return
        height = shown.placed.height - 1
        block = _block(pixels, shown.top, height, ratio)
        colors = theme.current()
        palette = np.array([rgb(colors.cause(cause)) for cause in sorted(colors.causes)], np.uint32)
        classes = row.name[np.maximum(seen.event, 0)].astype(np.uint8)
        cut = max(round((shown.top + height) * ratio) - pixels.shape[0], 0)
        foot = max(round(FOOT * ratio) - cut, 0)
        phase = round(-fine.t0 / fine.ns_per_pixel) * -1 + max(-round(shown.top * ratio), 0)
        paint_gaps(block, seen, classes, palette, rgb(colors.window), foot, phase)
        if scene.idle is not None and height >= 26:
            area = QRectF(0, shown.top, fine.width / ratio, height - FOOT)
            rows = shown.placed.rows
            below = height - FOOT - (rows[-1].top + rows[-1].height) if rows else 0
            self._gap_labels.collect(scene.idle, row, seen, area, below, ratio)

    def _strip(self, pixels: U32, scene: Scene, fine: Scale, shown: Shown, ratio: float, gaps: bool) -> None:
        """The busy strip of a folded rank: each device's work, and its gaps."""
        group = next(each for each in scene.index.groups if each.key == shown.placed.track.group)
        if not shown.placed.rows or not group.devices:
            return
        place = shown.placed.rows[0]
        share = place.height / len(group.devices)
        colors = theme.current()
        for number, device in enumerate(group.devices):
            top = shown.top + place.top + round(number * share)
            high = max(round((number + 1) * share) - round(number * share) - (len(group.devices) > 1), 1)
            if gaps and device in scene.gaps:
                seen = columns(scene.gaps[device], fine)
                block = _block(pixels, top, high + (FOOT if len(group.devices) == 1 else 0), ratio)
                if seen is not None and len(block):
                    classes = scene.gaps[device].name[np.maximum(seen.event, 0)].astype(np.uint8)
                    palette = np.array(
                        [rgb(colors.cause(cause)) for cause in sorted(colors.causes)], np.uint32
                    )
                    foot = min(round(FOOT * ratio), len(block)) if high >= 8 else 0
                    paint_gaps(
                        block,
                        seen,
                        classes,
                        palette,
                        rgb(colors.strip),
                        foot,
                        round(fine.t0 / fine.ns_per_pixel),
                    )
            busy = scene.index.busy.get(device)
            seen = columns(busy, fine) if busy is not None else None
            block = _block(pixels, top, high, ratio)
            if seen is not None and len(block):
                table = density_table(np.array([rgb(colors.family("gemm"))], np.uint32), rgb(colors.strip))
                nothing = np.zeros(len(seen.event), np.uint8)
                paint_row(block, _without_edges(seen), nothing, table, rgb(colors.strip))

    def _counter(self, pixels: U32, scene: Scene, fine: Scale, shown: Shown, ratio: float) -> None:
        counter = scene.trace.counters[shown.placed.track.counter]
        found = counter_columns(counter, fine)
        block = _block(pixels, shown.top + 4, shown.placed.height - 6, ratio)
        if found is None or len(block) < 4:
            return
        low, high = bounds(counter)
        value, peak = ((each - low) / (high - low) for each in found)
        colors = theme.current()
        color = colors.named(shown.placed.track.counter)
        fill = theme.mixed(color, colors.window, 0.28)
        paint_curve(block, value, peak, rgb(fill), rgb(color), max(round(ratio), 1))


def _block(pixels: U32, top: float, height: float, ratio: float) -> U32:
    """The part of the picture from ``top`` (logical) on that lies inside it."""
    return pixels[max(round(top * ratio), 0) : max(round((top + height) * ratio), 0)]


def _without_edges(seen: Columns) -> Columns:
    none = np.empty(0)
    return Columns(seen.coverage, seen.event, np.empty(0, np.int64), none, none)
