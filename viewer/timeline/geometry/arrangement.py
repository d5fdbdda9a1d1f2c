"""How the user arranged the lanes: pinned, hidden, collapsed, moved, resized; kept across sessions as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class GroupState(IntEnum):
    """How much of a rank is shown: one busy strip, its GPU lanes, or everything."""

    STRIP = 0
    BRIEF = 1
    FULL = 2


@dataclass(slots=True)
class Arrangement:
    """What differs from the arrangement a recording starts with; keys are those of tracks and groups."""

    pinned: list[str] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    collapsed: dict[str, bool] = field(default_factory=dict)
    heights: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)  # keys of one or several groups, in the order wanted
    groups: dict[str, GroupState] = field(default_factory=dict)
    compact: bool = False

    def to_data(self) -> dict[str, Any]:
        """The same as lists and dictionaries that JSON can hold."""
        return {
            "pinned": list(self.pinned),
            "hidden": sorted(self.hidden),
            "collapsed": dict(self.collapsed),
            "heights": dict(self.heights),
            "order": list(self.order),
            "groups": {key: state.name for key, state in self.groups.items()},
            "compact": self.compact,
        }

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Arrangement:
        """From ``to_data``; what cannot be understood is left out."""
        states = {state.name: state for state in GroupState}
        return Arrangement(
            [str(key) for key in data.get("pinned", ())],
            {str(key) for key in data.get("hidden", ())},
            {str(key): bool(value) for key, value in dict(data.get("collapsed", {})).items()},
            {
                str(key): int(value)
                for key, value in dict(data.get("heights", {})).items()
                if isinstance(value, int)
            },
            [str(key) for key in data.get("order", ())],
            {str(key): states[name] for key, name in dict(data.get("groups", {})).items() if name in states},
            bool(data.get("compact", False)),
        )
