"""Callouts of a map: two lines about a part of it, in a box beside that part which covers no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QRectF

from parsers.model.arrays import I64
from parsers.model.late.dataclass import dataclass

MARGIN, AWAY = 10, 22
TALL = 44


@dataclass(frozen=True, slots=True, eq=False)
class Callout:
    """What stands out, and why; ``rows`` and ``steps`` (indices) are the cells it speaks of."""

    title: str
    reason: str
    rows: I64
    steps: I64


def placed(
    callouts: Sequence[Callout], boxes: Sequence[QRectF | None], plot: QRectF, widths: Sequence[float]
) -> list[tuple[Callout, QRectF, QRectF]]:
    """Each callout that is in view and has room, the box it speaks of, and where its text, as wide as it is, stands."""
    found: list[tuple[Callout, QRectF, QRectF]] = []
    taken = [box for box in boxes if box is not None and box.height() < plot.height() / 2]
    listed = [
        (box, callout, wide)
        for box, callout, wide in zip(boxes, callouts, widths, strict=True)
        if box is not None
    ]
    for box, callout, wide in sorted(listed, key=lambda each: each[0].height()):  # low ones have least room
        for place in _places(box, plot, min(wide + 2 * MARGIN + 4, plot.width() - 8)):
            if not any(place.intersects(other) for other in taken):
                found.append((callout, box, place))
                taken.append(place)
                break
    return found


def _places(box: QRectF, plot: QRectF, wide: float) -> Iterator[QRectF]:
    """Above and below the box, then further away, each at some places along it, the middle first."""
    for away in range(AWAY, round(plot.height()), AWAY // 2):
        for top in (box.top() - away - TALL, box.bottom() + away):
            for share in (0.5, 0.25, 0.75, 0.0, 1.0, -0.3, 1.3):
                left = box.left() + share * box.width() - wide / 2
                left = min(max(left, plot.left() + 4), plot.right() - wide - 4)
                place = QRectF(left, top, wide, TALL)
                if plot.contains(place):
                    yield place
