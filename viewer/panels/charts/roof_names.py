"""Where the names of roofs stand in a roofline: on their lines, beside each other and beside the dots."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, QSizeF

DOT = 12.0  # pixels
BLANK = 3.0  # pixels above and below the letters of a name
LEAST_SIZE = QSizeF(240.0, 140.0)  # of a plot that was not laid out yet


class NamePlaces:
    """Free places of one plot. Positions are what the axes show (powers of ten), sizes are pixels."""

    def __init__(self, shown: QRectF, size: QSizeF, dots: Iterable[tuple[float, float]]) -> None:
        size = size.expandedTo(LEAST_SIZE)
        self._per_x = size.width() / max(shown.width(), 1e-9)
        self._per_y = size.height() / max(shown.height(), 1e-9)
        centres = [self._pixels(QPointF(x, y)) for x, y in dots]
        half = QPointF(DOT / 2, DOT / 2)
        self._taken = [QRectF(centre - half, QSizeF(DOT, DOT)) for centre in centres]

    def step(self, pixels: float) -> float:
        """So many pixels along the horizontal axis."""
        return pixels / self._per_x

    def take(self, wanted: Iterable[QPointF], name: QSizeF, anchor: tuple[float, float]) -> QPointF:
        """The first of the wanted places where a name covers nothing, else the one where it covers least.

        ``anchor`` is the part of the name, from its left and its top, that stands at the place.
        """
        best, least = QPointF(), float("inf")
        for place in wanted:
            box = self._box(place, name, anchor)
            covered = sum(_area(box.intersected(other)) for other in self._taken)
            if covered < least:
                best, least = place, covered
            if not covered:
                break
        self._taken.append(self._box(best, name, anchor))
        return best

    def _box(self, place: QPointF, name: QSizeF, anchor: tuple[float, float]) -> QRectF:
        shift = QPointF(anchor[0] * name.width(), anchor[1] * name.height())
        return QRectF(self._pixels(place) - shift, name).adjusted(0, BLANK, 0, -BLANK)

    def _pixels(self, place: QPointF) -> QPointF:
        return QPointF(place.x() * self._per_x, -place.y() * self._per_y)


def _area(box: QRectF) -> float:
    return max(box.width(), 0.0) * max(box.height(), 0.0)
