"""The colours that lanes are drawn in, whoever draws them: a window with a theme, or a page without Qt."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol, TypeVar

from parsers.model.late import dataclass
from rules.analysis.idle.causes import Cause
from viewer.appearance import palette

C = TypeVar("C")


class LaneColors(Protocol[C]):
    """Where a lane gets its colours; ``C`` is what its drawer takes for a colour."""

    @property
    def grey(self) -> C: ...

    @property
    def step(self) -> C: ...

    @property
    def regions(self) -> Mapping[str, C]: ...

    def family(self, name: str) -> C: ...

    def cause(self, cause: Cause | int) -> C: ...

    def named(self, index: int) -> C: ...

    def plain(self, value: str) -> C: ...

    def muted(self, color: C, share: float) -> C: ...

    def shaded(self, color: C, step: int) -> C: ...


@dataclass(frozen=True, slots=True)
class PageColors:
    """The colours of a light or a dark page, as "#rrggbb"."""

    dark: bool

    @property
    def grey(self) -> str:
        return palette.GREY

    @property
    def step(self) -> str:
        return palette.STEP_ON_DARK if self.dark else palette.STEP_ON_LIGHT

    @property
    def regions(self) -> Mapping[str, str]:
        return palette.REGIONS

    def family(self, name: str) -> str:
        return palette.of_family(name)

    def cause(self, cause: Cause | int) -> str:
        kind = Cause(cause)
        return palette.GREY if kind is Cause.UNKNOWN and not self.dark else palette.CAUSES[kind]

    def named(self, index: int) -> str:
        return palette.SERIES[index % len(palette.SERIES)]

    def plain(self, value: str) -> str:
        return value

    def muted(self, color: str, share: float) -> str:
        return _muted(color, self.grey, share)

    def shaded(self, color: str, step: int) -> str:
        """As Qt makes a colour lighter or darker: by its value, and where that is full by its saturation."""
        return _shaded(color, step if self.dark else -step) if step else color


@lru_cache(1024)  # thousands of lanes share a few shades
def _muted(color: str, grey: str, share: float) -> str:
    pairs = zip(_channels(color), _channels(grey), strict=True)
    return _hex(tuple(own * share + ground * (1 - share) for own, ground in pairs))


@lru_cache(1024)
def _shaded(color: str, lighter: int) -> str:
    factor = 1 + 0.09 * abs(lighter)
    hue, saturation, value = colorsys.rgb_to_hsv(*_channels(color))
    value = value * factor if lighter > 0 else value / factor
    saturation = max(saturation - max(value - 1, 0.0), 0.0)
    return _hex(colorsys.hsv_to_rgb(hue, saturation, min(value, 1.0)))


def _channels(color: str) -> tuple[float, ...]:
    return tuple(int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))


def _hex(channels: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(each * 255):02x}" for each in channels)
