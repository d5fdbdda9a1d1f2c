"""Calls of one thread as samples of its stack show them: colours by file, as for Python frames."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import Lane, LaneKind
from viewer.timeline.kinds.base import Nested, Place, Wish, lane_style
from viewer.timeline.kinds.threads import PythonStyle


@lane_style
class SampledStacksStyle(PythonStyle):
    """What a profiler of the CPU saw a thread in."""

    kind: ClassVar[LaneKind] = LaneKind.SAMPLED_STACKS
    order: ClassVar[int] = 35
    title: ClassVar[str] = "Samples"
    endings: ClassVar[tuple[str, ...]] = ()
    category: ClassVar[str] = "sampled calls"
    heading: ClassVar[str] = "Sampled calls"
    nested: ClassVar[Nested | None] = Nested("Sampled call", "Samples", 3)
    starts_small: ClassVar[bool] = False
    wish: ClassVar[Wish] = Wish(30, 16, 12)

    def place(self, lane: Lane, works: bool, leads: bool) -> Place:
        return Place.WORKING_THREAD if works else Place.QUIET_THREAD
