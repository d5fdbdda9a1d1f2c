"""What stands aside: the profiler's own work, the operating system, samples, memory marks, synchronisation markers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from PySide6.QtGui import QColor

from parsers.model import LaneKind
from rules.analysis.idle.causes import Cause
from viewer.look.theme import Theme
from viewer.timeline.geometry.naming import plain_name
from viewer.timeline.kinds.base import Place, lane_style


@lane_style
class AsideStyle:
    """Lanes that explain little by themselves: one quiet colour."""

    kinds: ClassVar[tuple[LaneKind, ...]] = (
        LaneKind.OVERHEAD,
        LaneKind.OS_RUNTIME,
        LaneKind.SAMPLES,
        LaneKind.MEMORY,
        LaneKind.OTHER,
    )
    category: ClassVar[str] = "other"

    def key(self, name: str, culprits: Mapping[str, Cause]) -> str:
        return ""

    def color(self, key: str, place: Place, theme: Theme) -> QColor:
        return QColor("#8b94a7") if place.lane.kind is not LaneKind.OVERHEAD else QColor("#a5886a")

    def shown(self, name: str) -> str:
        return plain_name(name)
