"""Lanes of what other logs say: compilations, collectives as they were called, requests, and parts of kernels."""

from __future__ import annotations

from parsers.model import LaneKind
from parsers.model.names.collectives import UNFINISHED
from parsers.model.names.kernels import kernel_of_block
from rules.analysis.idle.causes import Cause
from viewer.appearance.lane_colors import C, LaneColors
from viewer.timeline.kinds.base import LaneStyle, StyledRow, Wish, lane_style, stable_number


@lane_style
class CompilationStyle(LaneStyle):
    """Compilations of one process, as its log states them."""

    kind = LaneKind.COMPILATION
    order = 64
    title = "Compiling"
    category = "compilations"
    hue = "#c07fb4"
    wish = Wish(34, 18, 4)


@lane_style
class ServedStyle(LaneStyle):
    """Requests to one model, one after the other; those that overlap are on further lanes."""

    kind = LaneKind.SERVED
    order = 63
    title = "Requests"
    category = "requests and their stages"
    hue = "#7f9fc0"
    wish = Wish(34, 18, 4)


_DID_NOT_END = "did not end"


@lane_style
class FlightRecorderStyle(LaneStyle):
    """What PyTorch's flight recorder kept of one process group."""

    kind = LaneKind.FLIGHT_RECORDER
    order = 65
    title = "Collectives called"
    category = "collectives called"
    hue = "#d98a4b"
    heading = "Collectives called"
    stays_when_brief = True
    wish = Wish(34, 18, 4)

    def key(self, name: str) -> str:
        return _DID_NOT_END if name.endswith(UNFINISHED) else "ended"

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        return theme.cause(Cause.SYNCHRONIZATION) if key == _DID_NOT_END else theme.plain(self.hue)


_COLORS = 10


@lane_style
class InsideKernelStyle(LaneStyle):
    """The blocks that one warp of a multiprocessor works on, one after the other, each with its parts."""

    kind = LaneKind.INSIDE_KERNEL
    order = 66
    subtitle = "inside kernels"
    category = "parts of kernels"
    heading = "Inside kernels"
    wish = Wish(34, 18, 4)

    def key(self, name: str) -> str:
        return "" if kernel_of_block(name) != name else str(stable_number(name) % _COLORS)

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        return theme.named(int(key)) if key else super().color(key, row, theme)

    def explained(self, key: str) -> str:
        return "parts, by their name" if key else "blocks"
