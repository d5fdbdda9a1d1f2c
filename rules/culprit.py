"""Who or what is to blame: its kind, its name as recorded, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CulpritKind(StrEnum):
    """What sort of thing a culprit is. ``OUTSIDE`` and ``REASON`` are words of ours, all others names."""

    NOBODY = "nobody"
    REGION = "region"
    OPERATOR = "operator"
    CALL = "API call"
    FRAME = "Python frame"
    OUTSIDE = "outside any region"
    REASON = "reason"
    RANK = "rank"
    KERNEL = "kernel"
    WORK = "kind of work on the GPU"
    COPY = "copy"
    COLLECTIVE = "collective"
    STEP = "step"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Culprit:
    """One culprit; ``place`` is what it stands in, such as the operator around a call."""

    kind: CulpritKind
    name: str
    place: Culprit | None = None
    note: str = ""  # what its name does not say, in a word or two

    @property
    def text(self) -> str:
        """ "cudaLaunchKernel in aten::mm": as it is shown everywhere."""
        name = f"{self.name} ({self.note})" if self.note else self.name
        return f"{name} in {self.place.text}" if self.place is not None else name

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> tuple[str, ...]:
        """Its own name and those of its places."""
        return (self.name, *(self.place.names if self.place is not None else ()))

    def is_in(self, kind: CulpritKind, prefix: str = "") -> bool:
        """Whether it, or what it stands in, is of a kind and has a name that begins so."""
        mine = self.kind is kind and self.name.startswith(prefix)
        return mine or (self.place is not None and self.place.is_in(kind, prefix))


NOBODY = Culprit(CulpritKind.NOBODY, "")


def reason(words: str) -> Culprit:
    """What stands in for a culprit where nobody can be named."""
    return Culprit(CulpritKind.REASON, words)
