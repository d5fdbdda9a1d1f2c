"""GPU streams: operations coloured by kernel family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from PySide6.QtGui import QColor

from parsers.model import LaneKind
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import classify
from viewer.look.theme import Theme
from viewer.timeline.geometry.naming import kernel_name
from viewer.timeline.kinds.base import Place, lane_style


@lane_style
class GpuStreamStyle:
    """Compute streams, communication streams and copy streams."""

    kinds: ClassVar[tuple[LaneKind, ...]] = (LaneKind.GPU_STREAM, LaneKind.NCCL, LaneKind.COPY)
    category: ClassVar[str] = "GPU operations"

    def key(self, name: str, culprits: Mapping[str, Cause]) -> str:
        return classify(name).family.label

    def color(self, key: str, place: Place, theme: Theme) -> QColor:
        return theme.family(key)

    def shown(self, name: str) -> str:
        return kernel_name(name)
