"""Requests that an inference server answered, each with its stages."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import LaneKind
from viewer.timeline.kinds.base import LaneStyle, Wish, lane_style


@lane_style
class ServedStyle(LaneStyle):
    """Requests to one model, one after the other; those that overlap are on further lanes."""

    kind: ClassVar[LaneKind] = LaneKind.SERVED
    order: ClassVar[int] = 63
    title: ClassVar[str] = "Requests"
    category: ClassVar[str] = "requests and their stages"
    hue: ClassVar[str] = "#7f9fc0"
    wish: ClassVar[Wish] = Wish(34, 18, 4)
