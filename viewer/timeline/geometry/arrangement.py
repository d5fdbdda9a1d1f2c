"""Which lanes are shown and where: pinned, hidden, collapsed, moved or resized by the user, kept by a filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import IntEnum
from itertools import islice
from typing import Any

from parsers.model.late import dataclass, regex
from viewer.timeline.geometry.tracks import Group, Track
from viewer.timeline.kinds.base import style_of

EXAMPLE = "rank:2  gpu:1  stream:7  kind:nccl, or a part of a lane's name"
_FIELD = regex(r"\b(rank|gpu|stream|kind)\s*[:=]\s*([^\s:=]+)|\b(rank|gpu|stream)\s+(\d+)\b")
_BEGUN = regex(r"\b(rank|gpu|stream|kind)\s*[:=]\s*$")  # its value comes next
_NUMBERS = regex(r"\d+")


@dataclass(frozen=True, slots=True)
class LaneFilter:
    """``fields``: the values that each field may have; ``words``: what the name must contain, whole where numbers."""

    fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    words: tuple[str, ...] = ()

    @staticmethod
    def of(text: str) -> LaneFilter:
        """Read what somebody typed; several values of one field, apart or with commas, are alternatives."""
        folded = _BEGUN.sub("", text.casefold())
        fields: dict[str, frozenset[str]] = {}
        for one, values, other, number in _FIELD.findall(folded):
            name = one or other
            fields[name] = fields.get(name, frozenset()) | frozenset((values or number).strip(",").split(","))
        return LaneFilter(fields, tuple(_FIELD.sub(" ", folded).split()))

    def __bool__(self) -> bool:
        return bool(self.fields or self.words)

    def keeps(self, track: Track, group: Group) -> bool:
        numbers = {"rank": track.rank, "gpu": track.gpu, "stream": track.stream}
        for name, wanted in self.fields.items():
            if name == "kind":
                if not any(each in _kind(track) for each in wanted):
                    return False
            elif str(numbers[name]) not in wanted:
                return False
        process = "" if track.rank is not None else group.title
        name = f"{track.title} {track.subtitle} {process} {_kind(track)}".casefold()
        return all(word in (_NUMBERS.findall(name) if word.isdigit() else name) for word in self.words)


def _kind(track: Track) -> str:
    if track.kind is None:
        return "counter"
    return f"{track.kind.name} {style_of(track.kind).category}".casefold().replace("_", " ")


class GroupState(IntEnum):
    """How much of a rank is shown: one busy strip, its GPU lanes, or everything."""

    STRIP = 0
    BRIEF = 1
    FULL = 2


MAX_KEYS = 100_000
TALLEST_KEPT = 10_000  # px


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
    calls_apart: bool = False  # GPU API calls on lanes of their own, not inside of their operators

    def switched_like(self, other: Arrangement) -> Arrangement:
        """The same arrangement with the switches of another one: they are the window's, not the recording's."""
        return replace(self, compact=other.compact, calls_apart=other.calls_apart)

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
            "calls_apart": self.calls_apart,
        }

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Arrangement:
        """From ``to_data``, whatever it holds; what cannot be understood is left out."""
        states = _entries(
            data, "groups", lambda value: isinstance(value, str) and value in GroupState.__members__
        )
        return Arrangement(
            pinned=_texts(data, "pinned"),
            hidden=set(_texts(data, "hidden")),
            collapsed=_entries(data, "collapsed", lambda value: isinstance(value, bool)),
            heights=_entries(data, "heights", _is_height),
            order=_texts(data, "order"),
            groups={key: GroupState[state] for key, state in states.items()},
            compact=data.get("compact") is True,
            calls_apart=data.get("calls_apart") is True,
        )


def _texts(data: Mapping[str, Any], part: str) -> list[str]:
    stated = data.get(part)
    return [each for each in stated[:MAX_KEYS] if isinstance(each, str)] if isinstance(stated, list) else []


def _is_height(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TALLEST_KEPT


def _entries(data: Mapping[str, Any], part: str, is_fit: Callable[[object], bool]) -> dict[str, Any]:
    stated = data.get(part)
    entries = islice(stated.items(), MAX_KEYS) if isinstance(stated, dict) else ()
    return {key: value for key, value in entries if isinstance(key, str) and is_fit(value)}
