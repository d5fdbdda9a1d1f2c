"""What stands aside: the profiler's own work, the operating system, samples, memory marks, synchronisation markers."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import LaneKind
from viewer.timeline.kinds.base import LaneStyle, lane_style


@lane_style
class OtherStyle(LaneStyle):
    """Lanes of no kind that is known: one quiet colour."""

    kind = LaneKind.OTHER
    order = 45
    endings: ClassVar[tuple[str, ...]] = ("synchronization",)
    starts_small = True
    stands_aside = True


@lane_style
class OsRuntimeStyle(OtherStyle):
    """Calls of the operating system."""

    kind = LaneKind.OS_RUNTIME
    order = 50
    title = "OS calls"
    endings = ("OS runtime", "system calls")


@lane_style
class SamplesStyle(OtherStyle):
    """Samples of where a thread was."""

    kind = LaneKind.SAMPLES
    order = 60
    title = "CPU samples"
    endings = ("samples",)


@lane_style
class OverheadStyle(OtherStyle):
    """The profiler's own work."""

    kind = LaneKind.OVERHEAD
    order = 70
    title = "Profiler"
    endings = ("profiler overhead", "overhead")
    hue = "#a5886a"


@lane_style
class MemoryStyle(LaneStyle):
    """Marks of memory."""

    kind = LaneKind.MEMORY
    order = 120
    subtitle = "memory"
