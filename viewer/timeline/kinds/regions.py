"""Regions that the program named: phases of a step in fixed colours, all others by their name."""

from __future__ import annotations

import re
from dataclasses import replace

from parsers.model import Lane, LaneKind
from parsers.model.late import regex
from parsers.model.names.steps import step_number
from rules.analysis.idle.causes import Cause
from viewer.appearance.lane_colors import C, LaneColors
from viewer.timeline.kinds.base import LaneStyle, Nested, Place, StyledRow, Wish, lane_style, stable_number

_SERIES, _CAUSE = "series ", "cause "
_NUMBER = regex(r"\d+")
_WORDS = (
    ("backward", regex(r"backward|\bbwd\b|autograd", re.IGNORECASE)),
    ("forward", regex(r"forward|\bfwd\b|prefill|decode", re.IGNORECASE)),
    ("optimizer", regex(r"optimi[sz]er|\bopt\b|zero_grad|clip_grad", re.IGNORECASE)),
    ("loss", regex(r"\bloss\b|criterion", re.IGNORECASE)),
    ("communication", regex(r"nccl|all_?reduce|all_?gather|reduce_?scatter|broadcast", re.IGNORECASE)),
    ("input", regex(r"dataloader|(?<![a-z])(?:data|load)(?![a-z])|batch|fetch|collate", re.IGNORECASE)),
)


class _Named(LaneStyle):
    category = "regions"
    heading = "Regions"
    endings = ("regions",)

    def key(self, name: str) -> str:
        if step_number(name) is not None:
            return "step"
        word = next((word for word, pattern in _WORDS if pattern.search(name)), "")
        return word or f"{_SERIES}{stable_number(_NUMBER.sub('#', name)) % 10}"

    def blamed(self, key: str, cause: Cause) -> str:
        """A range that the GPU waits for has the colour of the wait, unless its name says what it is."""
        return f"{_CAUSE}{int(cause)}" if key.startswith(_SERIES) else key

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        if key.startswith(_CAUSE):
            return theme.cause(int(key.removeprefix(_CAUSE)))
        if key.startswith(_SERIES):
            return theme.named(int(key.removeprefix(_SERIES)))
        return theme.step if key == "step" else theme.regions[key]

    def explained(self, key: str) -> str:
        if key.startswith(_CAUSE):
            return "what the GPU waits for"
        return "others, by their name" if key.startswith(_SERIES) else key


@lane_style
class RegionStyle(_Named):
    """Ranges of record_function and NVTX of one thread."""

    kind = LaneKind.REGION
    order = 10
    title = "Regions"
    hue = "#8d80ee"
    nested = Nested("Region", "Regions", 2, every=True)
    main_thread = 2
    wish = Wish(30, 22, 4)

    def place(self, lane: Lane, works: bool, leads: bool) -> Place:
        return Place.REGIONS if works and leads else super().place(lane, works, leads)

    def wished(self, levels: int, *, brief: bool, first: bool) -> Wish:
        wish = super().wished(levels, brief=brief, first=first)
        return wish if brief or levels > 1 else replace(wish, height=38)


@lane_style
class GpuRegionStyle(_Named):
    """The same ranges projected on a stream."""

    kind = LaneKind.GPU_REGION
    order = 140
    title = "Annotations"
    hue = "#8d80ee"
    starts_small = True


@lane_style
class StepsStyle(_Named):
    """Steps: the ruler shows them."""

    kind = LaneKind.STEPS
    order = 0
    is_drawn = False
