"""Calls of the CUDA runtime and driver: launches, copies, waits and allocations apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from PySide6.QtGui import QColor

from parsers.model import LaneKind
from rules.analysis.idle.causes import Cause
from viewer.look.theme import Theme
from viewer.timeline.geometry.naming import plain_name
from viewer.timeline.kinds.base import Place, lane_style

_GROUPS = (
    ("launch", re.compile(r"launch", re.IGNORECASE)),
    ("wait", re.compile(r"synchronize|StreamWaitEvent|EventQuery", re.IGNORECASE)),
    ("copy", re.compile(r"memcpy|memset|prefetch", re.IGNORECASE)),
    (
        "memory",
        re.compile(r"malloc|free|hostalloc|memalloc|hostregister|mempool|memcreate|memmap", re.IGNORECASE),
    ),
)


@lane_style
class CudaApiStyle:
    """Runtime and driver calls of one thread."""

    kinds: ClassVar[tuple[LaneKind, ...]] = (LaneKind.CUDA_API,)
    category: ClassVar[str] = "CUDA API calls"

    def key(self, name: str, culprits: Mapping[str, Cause]) -> str:
        return next((group for group, pattern in _GROUPS if pattern.search(name)), "other calls")

    def color(self, key: str, place: Place, theme: Theme) -> QColor:
        if key == "wait":
            return theme.cause(Cause.SYNCHRONIZATION)
        if key == "memory":
            return theme.cause(Cause.ALLOCATOR)
        if key == "copy":
            return theme.family("copies")
        return QColor("#c2a14a") if key == "launch" else QColor("#8b94a7")

    def shown(self, name: str) -> str:
        return plain_name(name)
