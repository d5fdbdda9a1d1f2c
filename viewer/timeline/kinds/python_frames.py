"""Python frames: muted colours by file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from PySide6.QtGui import QColor

from parsers.model import LaneKind
from rules.analysis.idle.causes import Cause
from viewer.look.theme import Theme, mixed
from viewer.timeline.geometry.naming import python_name
from viewer.timeline.kinds.base import Place, lane_style, stable_number


@lane_style
class PythonStyle:
    """Frames of one thread's Python stack."""

    kinds: ClassVar[tuple[LaneKind, ...]] = (LaneKind.PYTHON,)
    category: ClassVar[str] = "Python frames"

    def key(self, name: str, culprits: Mapping[str, Cause]) -> str:
        return str(stable_number(name.split("(")[0]) % 10)

    def color(self, key: str, place: Place, theme: Theme) -> QColor:
        return mixed(theme.named(int(key)), QColor("#8b94a7"), 0.45)

    def shown(self, name: str) -> str:
        return python_name(name)
