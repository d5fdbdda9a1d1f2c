"""Collectives as a rank called them, one lane a process group; those that did not end stand out."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import LaneKind
from parsers.model.names.collectives import UNFINISHED
from rules.analysis.idle.causes import Cause
from viewer.appearance.lane_colors import C, LaneColors
from viewer.timeline.kinds.base import LaneStyle, StyledRow, Wish, lane_style

_DID_NOT_END = "did not end"


@lane_style
class FlightRecorderStyle(LaneStyle):
    """What PyTorch's flight recorder kept of one process group."""

    kind: ClassVar[LaneKind] = LaneKind.FLIGHT_RECORDER
    order: ClassVar[int] = 65
    title: ClassVar[str] = "Collectives called"
    category: ClassVar[str] = "collectives called"
    hue: ClassVar[str] = "#d98a4b"
    heading: ClassVar[str] = "Collectives called"
    stays_when_brief: ClassVar[bool] = True
    wish: ClassVar[Wish] = Wish(34, 18, 4)

    def key(self, name: str) -> str:
        return _DID_NOT_END if name.endswith(UNFINISHED) else "ended"

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        return theme.cause(Cause.SYNCHRONIZATION) if key == _DID_NOT_END else theme.plain(self.hue)
