"""Regions that the program named: phases of a step in fixed colours, culprits in the colour of what they cause."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from PySide6.QtGui import QColor

from parsers.model import LaneKind
from rules.analysis.idle.causes import Cause
from viewer.look.theme import Theme
from viewer.timeline.geometry.naming import plain_name
from viewer.timeline.kinds.base import Place, lane_style, stable_number

_CAUSE = "cause "
_SERIES = "series "
_STEP = re.compile(
    r"^(?:profiler|train(?:ing)?|eval)?[ _]?(?:step|iter(?:ation)?)[ _#:.]*\d+$", re.IGNORECASE
)
_NUMBER = re.compile(r"\d+")
_WORDS = (
    ("backward", re.compile(r"backward|\bbwd\b|autograd", re.IGNORECASE)),
    ("forward", re.compile(r"forward|\bfwd\b|prefill|decode", re.IGNORECASE)),
    ("optimizer", re.compile(r"optimi[sz]er|\bopt\b|zero_grad|clip_grad", re.IGNORECASE)),
    ("loss", re.compile(r"\bloss\b|criterion", re.IGNORECASE)),
    ("communication", re.compile(r"nccl|all_?reduce|all_?gather|reduce_?scatter|broadcast", re.IGNORECASE)),
    ("input", re.compile(r"dataloader|(?<![a-z])(?:data|load)(?![a-z])|batch|fetch|collate", re.IGNORECASE)),
)


@lane_style
class RegionStyle:
    """Ranges of record_function and NVTX, on the CPU and projected on a stream."""

    kinds: ClassVar[tuple[LaneKind, ...]] = (LaneKind.REGION, LaneKind.GPU_REGION, LaneKind.STEPS)
    category: ClassVar[str] = "regions"

    def key(self, name: str, culprits: Mapping[str, Cause]) -> str:
        if name in culprits:
            return f"{_CAUSE}{int(culprits[name])}"
        if _STEP.search(name):
            return "step"
        word = next((word for word, pattern in _WORDS if pattern.search(name)), "")
        return word or f"{_SERIES}{stable_number(_NUMBER.sub('#', name)) % 10}"

    def color(self, key: str, place: Place, theme: Theme) -> QColor:
        if key.startswith(_CAUSE):
            return theme.cause(int(key.removeprefix(_CAUSE)))
        if key.startswith(_SERIES):
            return theme.named(int(key.removeprefix(_SERIES)))
        return theme.step if key == "step" else theme.regions[key]

    def shown(self, name: str) -> str:
        return plain_name(name)
