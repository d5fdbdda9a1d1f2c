"""GPU streams: operations coloured by kernel family; streams that mostly communicate or only copy say so."""

from __future__ import annotations

from parsers.model import Lane, LaneKind, Trace
from parsers.model.names.kernels import kernel_name
from rules.analysis.names.families import classify
from viewer.appearance.lane_colors import C, LaneColors
from viewer.timeline.kinds.base import LaneStyle, Place, StyledRow, Wish, lane_style


@lane_style
class GpuStreamStyle(LaneStyle):
    """Every operation of one stream."""

    kind = LaneKind.GPU_STREAM
    order = 90
    category = "GPU operations"
    hue = "#36b3e6"
    heading = "GPU operations"
    wish = Wish(72, 20, 4)
    beside = Wish(36, 20, 4)
    brief = Wish(46, 18, 2)
    brief_beside = Wish(28, 18, 2)
    highest_row = 96

    def key(self, name: str) -> str:
        return classify(name).family.label

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        return theme.family(key)

    def shown(self, name: str) -> str:
        return kernel_name(name)

    def told(self, name: str) -> str:
        return classify(name).family.label

    def titles(self, lane: Lane, trace: Trace) -> tuple[str, str]:
        if lane.device is None:
            return super().titles(lane, trace)
        device = trace.devices[lane.device]
        stream = f"stream {lane.stream}" if lane.stream is not None else ""
        where = f"GPU {device.id} · {stream}" if stream else f"GPU {device.id}"
        if not self.title:
            return where, device.name
        return self.title, stream if lane.rank is not None or len(trace.devices) == 1 else where

    def place(self, lane: Lane, works: bool, leads: bool) -> Place:
        return Place.GPU if lane.device is not None else super().place(lane, works, leads)


@lane_style
class CommunicationStyle(GpuStreamStyle):
    """A stream that mostly runs collectives."""

    kind = LaneKind.NCCL
    order = 100
    title = "Communication"
    hue = "#c86fc9"
    stays_when_brief = True


@lane_style
class CopyStyle(GpuStreamStyle):
    """A stream that only copies."""

    kind = LaneKind.COPY
    order = 110
    title = "Copies"
    hue = "#3aa99f"
