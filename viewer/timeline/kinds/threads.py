"""What a CPU thread does: operators, Python frames, and calls of the CUDA runtime and driver."""

from __future__ import annotations

from typing import ClassVar

from parsers.model import Lane, LaneKind, Trace
from parsers.model.late import regex
from parsers.model.names.calls import Call, call_of
from rules.analysis.gpu.gpu_vendor import Vendor, vendor_of
from rules.analysis.idle.causes import Cause
from viewer.appearance.lane_colors import C, LaneColors
from viewer.appearance.naming import python_name
from viewer.timeline.kinds.base import LaneStyle, Nested, Place, StyledRow, Wish, lane_style, stable_number

_THREADS = ("#5f86cf", "#8f84cf", "#5aa39a", "#b07fae", "#8c9a5b", "#6f93b8")
_API_CALL = regex(r"(cuda|cu|hip|hsa_|ur|ze)[A-Z]\w+")  # as drawn inside of operators
_LAUNCH_HUE = "#c2a14a"
_CALLS = {
    "launch": (Call.LAUNCH, Call.GRAPH_LAUNCH),
    "wait": (Call.SYNCHRONIZE,),
    "copy": (Call.COPY, Call.BLOCKING_COPY, Call.MEMSET),
    "memory": (Call.ALLOCATE,),
}


def call_group(name: str) -> str:
    """What a call of the runtime or the driver is for."""
    call = call_of(name)
    return next((group for group, calls in _CALLS.items() if call in calls), "other calls")


def call_color(group: str, theme: LaneColors[C]) -> C:
    """The colour of such a group."""
    if group == "wait":
        return theme.cause(Cause.SYNCHRONIZATION)
    if group == "memory":
        return theme.cause(Cause.ALLOCATOR)
    if group == "copy":
        return theme.family("copies")
    return theme.plain(_LAUNCH_HUE) if group == "launch" else theme.grey


@lane_style
class CpuThreadStyle(LaneStyle):
    """Operators of one thread: one hue a thread, a lighter shade for each level, small steps between neighbours."""

    kind = LaneKind.CPU_THREAD
    order = 20
    subtitle = "CPU operators"
    endings = ("operators",)
    category = "CPU operators"
    hue = "#5f86cf"
    heading = "CPU threads"
    nested = Nested("Operator", "Operators", 0)
    main_thread = 1
    wish = Wish(30, 15, 6)

    def key(self, name: str) -> str:
        return call_group(name) if _API_CALL.match(name) else str(stable_number(name) % 3)

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        if not key.isdigit():
            return call_color(key, theme)
        hue = theme.plain(_THREADS[row.number % len(_THREADS)])
        return theme.shaded(hue, int(key) - 1 + min(row.depth, 4))

    def explained(self, key: str) -> str:
        return "a colour a thread" if key.isdigit() else ""


@lane_style
class PythonStyle(LaneStyle):
    """Frames of one thread's Python stack: muted colours by file."""

    kind = LaneKind.PYTHON
    order = 30
    title = "Python"
    endings: ClassVar[tuple[str, ...]] = ("Python frames", "Python")
    category = "Python frames"
    hue = "#9cb86a"
    heading = "Python frames"
    nested = Nested("Python frame", "Python", 1)
    starts_small = True
    wish = Wish(30, 14, 12)

    def key(self, name: str) -> str:
        return str(stable_number(name.split("(")[0]) % 10)

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        return theme.muted(theme.named(int(key)), 0.45)

    def explained(self, key: str) -> str:
        return "by their file"

    def shown(self, name: str) -> str:
        return python_name(super().shown(name))


@lane_style
class CudaApiStyle(LaneStyle):
    """Runtime and driver calls of one thread: launches, copies, waits and allocations apart."""

    kind = LaneKind.CUDA_API
    order = 40
    title = "CUDA API"
    endings = ("CUDA calls", "HIP calls", "API calls")
    category = "CUDA API calls"
    hue = _LAUNCH_HUE
    heading = "GPU API calls"
    main_thread = 1
    wish = Wish(34, 18, 2)

    def key(self, name: str) -> str:
        return call_group(name)

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        return call_color(key, theme)

    def titles(self, lane: Lane, trace: Trace) -> tuple[str, str]:
        title, second = super().titles(lane, trace)
        return {Vendor.AMD: "HIP API", Vendor.OTHER: "API calls"}.get(vendor_of(trace), title), second


@lane_style
class SampledStacksStyle(PythonStyle):
    """What a profiler of the CPU saw a thread in."""

    kind = LaneKind.SAMPLED_STACKS
    order = 35
    title = "Samples"
    endings = ()
    category = "sampled calls"
    heading = "Sampled calls"
    nested = Nested("Sampled call", "Samples", 3)
    starts_small = False
    wish = Wish(30, 16, 12)

    def place(self, lane: Lane, works: bool, leads: bool) -> Place:
        return Place.WORKING_THREAD if works else Place.QUIET_THREAD
