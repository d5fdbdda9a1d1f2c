"""CPU operators: one hue a thread, a lighter shade for each level, small steps between neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from PySide6.QtGui import QColor

from parsers.model import LaneKind
from rules.analysis.idle.causes import Cause
from viewer.look.theme import Theme
from viewer.timeline.geometry.naming import plain_name
from viewer.timeline.kinds.base import Place, lane_style, shaded, stable_number

_HUES = ("#5f86cf", "#8f84cf", "#5aa39a", "#b07fae", "#8c9a5b", "#6f93b8")


@lane_style
class CpuThreadStyle:
    """Operators of one CPU thread."""

    kinds: ClassVar[tuple[LaneKind, ...]] = (LaneKind.CPU_THREAD,)
    category: ClassVar[str] = "CPU operators"

    def key(self, name: str, culprits: Mapping[str, Cause]) -> str:
        return str(stable_number(name) % 3)

    def color(self, key: str, place: Place, theme: Theme) -> QColor:
        hue = QColor(_HUES[place.number % len(_HUES)])
        return shaded(hue, int(key) - 1 + min(place.depth, 4), theme)

    def shown(self, name: str) -> str:
        return plain_name(name)
