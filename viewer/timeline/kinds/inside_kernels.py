"""Parts of a kernel as warps of the multiprocessors run them: the same part has one colour everywhere."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import LaneKind
from parsers.model.names.blocks import kernel_of_block
from viewer.appearance.lane_colors import C, LaneColors
from viewer.timeline.kinds.base import LaneStyle, StyledRow, Wish, lane_style, stable_number

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
