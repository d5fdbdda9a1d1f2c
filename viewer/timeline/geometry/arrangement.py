"""How the user arranged the lanes: pinned, hidden, collapsed, moved, resized; kept across sessions as plain data."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec


class GroupState(IntEnum):
    """How much of a rank is shown: one busy strip, its GPU lanes, or everything."""

    STRIP = 0
    BRIEF = 1
    FULL = 2


MOST_KEYS = 100_000
TALLEST_KEPT = 10_000  # px
_States = Literal["STRIP", "BRIEF", "FULL"]
_Height = Annotated[int, msgspec.Meta(ge=0, le=TALLEST_KEPT)]
V = TypeVar("V")


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
        """From ``to_data``, whatever it holds; what cannot be understood is left out."""
        states = _entries(data, "groups", cast("type[str]", _States))
        return Arrangement(
            pinned=_texts(data, "pinned"),
            hidden=set(_texts(data, "hidden")),
            collapsed=_entries(data, "collapsed", bool),
            heights=_entries(data, "heights", _Height),
            order=_texts(data, "order"),
            groups={key: GroupState[state] for key, state in states.items()},
            compact=data.get("compact") is True,
        )


def _texts(data: Mapping[str, Any], part: str) -> list[str]:
    stated = data.get(part)
    return [each for each in stated[:MOST_KEYS] if isinstance(each, str)] if isinstance(stated, list) else []


def _entries(data: Mapping[str, Any], part: str, kind: type[V]) -> dict[str, V]:
    stated = data.get(part)
    entries: dict[str, V] = {}
    for key, value in islice(stated.items(), MOST_KEYS) if isinstance(stated, dict) else ():
        with contextlib.suppress(msgspec.ValidationError):
            entries[key] = msgspec.convert(value, kind)
    return entries
