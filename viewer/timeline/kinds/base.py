"""What a kind of lane decides about its looks, and how the kinds are found."""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol, TypeVar

from PySide6.QtGui import QColor

from parsers.model import Lane, LaneKind
from rules.analysis.idle.causes import Cause
from viewer.look.theme import Theme


@dataclass(frozen=True, slots=True)
class Place:
    """Where a colour is wanted: the lane, its number among lanes like it, and the depth of the row."""

    lane: Lane
    number: int
    depth: int


class LaneStyle(Protocol):
    """Looks of the lanes of ``kinds``. Events of one ``key`` have one colour; a lane has at most 250 keys."""

    kinds: ClassVar[tuple[LaneKind, ...]]
    category: ClassVar[str]  # what its events are, for the legend: "kernels", "API calls"

    def key(self, name: str, culprits: Mapping[str, Cause]) -> str:
        """The colour key of events of this name; ``culprits`` are names that keep a GPU waiting."""

    def color(self, key: str, place: Place, theme: Theme) -> QColor:
        """The colour of a key."""

    def shown(self, name: str) -> str:
        """The name as it is written into a box."""


S = TypeVar("S", bound=type)
_STYLES: dict[LaneKind, LaneStyle] = {}


def lane_style(cls: S) -> S:
    """Register the looks of some kinds of lanes."""
    instance = cls()
    for kind in instance.kinds:
        _STYLES[kind] = instance
    return cls


@cache
def _discovered() -> Mapping[LaneKind, LaneStyle]:
    import viewer.timeline.kinds as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return _STYLES


def style_of(kind: LaneKind) -> LaneStyle:
    """The looks of a kind of lane; those of OTHER for a kind nobody described."""
    styles = _discovered()
    return styles.get(kind) or styles[LaneKind.OTHER]


def stable_number(text: str) -> int:
    """A number that is the same for the same text, in every run."""
    return zlib.crc32(text.encode("utf-8", "replace"))


def shaded(color: QColor, step: int, theme: Theme) -> QColor:
    """``color`` moved ``step`` small steps away from the ground, so that neighbours can be told apart."""
    if not step:
        return color
    factor = 100 + 9 * abs(step)
    lighter = (step > 0) == theme.dark
    return color.lighter(factor) if lighter else color.darker(factor)
