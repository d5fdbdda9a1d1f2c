"""Lanes of what other logs say: compilations, collectives as they were called, requests, and parts of kernels."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import LaneKind
from parsers.model.names.blocks import kernel_of_block
from parsers.model.names.collectives import UNFINISHED
from rules.analysis.idle.causes import Cause
from viewer.appearance.lane_colors import C, LaneColors
from viewer.timeline.kinds.base import LaneStyle, StyledRow, Wish, lane_style, stable_number


@lane_style
class CompilationStyle(LaneStyle):
    """Compilations of one process, as its log states them."""

    kind: ClassVar[LaneKind] = LaneKind.COMPILATION
    order: ClassVar[int] = 64
    title: ClassVar[str] = "Compiling"
    category: ClassVar[str] = "compilations"
    hue: ClassVar[str] = "#c07fb4"
    wish: ClassVar[Wish] = Wish(34, 18, 4)


@lane_style
class ServedStyle(LaneStyle):
    """Requests to one model, one after the other; those that overlap are on further lanes."""

    kind: ClassVar[LaneKind] = LaneKind.SERVED
    order: ClassVar[int] = 63
    title: ClassVar[str] = "Requests"
    category: ClassVar[str] = "requests and their stages"
    hue: ClassVar[str] = "#7f9fc0"
    wish: ClassVar[Wish] = Wish(34, 18, 4)


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


_COLORS = 10


@lane_style
class InsideKernelStyle(LaneStyle):
    """The blocks that one warp of a multiprocessor works on, one after the other, each with its parts."""

    kind: ClassVar[LaneKind] = LaneKind.INSIDE_KERNEL
    order: ClassVar[int] = 66
    subtitle: ClassVar[str] = "inside kernels"
    category: ClassVar[str] = "parts of kernels"
    heading: ClassVar[str] = "Inside kernels"
    wish: ClassVar[Wish] = Wish(34, 18, 4)

    def key(self, name: str) -> str:
        return "" if kernel_of_block(name) != name else str(stable_number(name) % _COLORS)

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        return theme.named(int(key)) if key else super().color(key, row, theme)

    def explained(self, key: str) -> str:
        return "parts, by their name" if key else "blocks"
