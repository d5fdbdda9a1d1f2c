"""Which lanes a filter keeps: fields such as ``rank:2`` or "rank 2", and words of a lane's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex
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
        """Whether a lane stays."""
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
