"""What torch.compile compiled and when, with marks where it gave up a graph."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import LaneKind
from viewer.timeline.kinds.base import LaneStyle, Wish, lane_style


@lane_style
class CompilationStyle(LaneStyle):
    """Compilations of one process, as its log states them."""

    kind: ClassVar[LaneKind] = LaneKind.COMPILATION
    order: ClassVar[int] = 64
    title: ClassVar[str] = "Compiling"
    category: ClassVar[str] = "compilations"
    hue: ClassVar[str] = "#c07fb4"
    wish: ClassVar[Wish] = Wish(34, 18, 4)
