"""What stands aside: the profiler's own work, the operating system, samples, memory marks, synchronisation markers."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import LaneKind
from viewer.timeline.kinds.base import LaneStyle, lane_style


@lane_style
class OtherStyle(LaneStyle):
    """Lanes of no kind that is known: one quiet colour."""

    kind: ClassVar[LaneKind] = LaneKind.OTHER
    order: ClassVar[int] = 45
    endings: ClassVar[tuple[str, ...]] = ("synchronization",)
    starts_small: ClassVar[bool] = True
    stands_aside: ClassVar[bool] = True


@lane_style
class OsRuntimeStyle(OtherStyle):
    """Calls of the operating system."""

    kind: ClassVar[LaneKind] = LaneKind.OS_RUNTIME
    order: ClassVar[int] = 50
    title: ClassVar[str] = "OS calls"
    endings: ClassVar[tuple[str, ...]] = ("OS runtime", "system calls")


@lane_style
class SamplesStyle(OtherStyle):
    """Samples of where a thread was."""

    kind: ClassVar[LaneKind] = LaneKind.SAMPLES
    order: ClassVar[int] = 60
    title: ClassVar[str] = "CPU samples"
    endings: ClassVar[tuple[str, ...]] = ("samples",)


@lane_style
class OverheadStyle(OtherStyle):
    """The profiler's own work."""

    kind: ClassVar[LaneKind] = LaneKind.OVERHEAD
    order: ClassVar[int] = 70
    title: ClassVar[str] = "Profiler"
    endings: ClassVar[tuple[str, ...]] = ("profiler overhead", "overhead")
    hue: ClassVar[str] = "#a5886a"


@lane_style
class MemoryStyle(LaneStyle):
    """Marks of memory."""

    kind: ClassVar[LaneKind] = LaneKind.MEMORY
    order: ClassVar[int] = 120
    subtitle: ClassVar[str] = "memory"
