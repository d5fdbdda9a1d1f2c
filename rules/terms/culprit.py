"""Who or what is to blame: its kind, its name as recorded, and where it stands."""

from __future__ import annotations

from enum import StrEnum

from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex

_PLAIN_WORDS = regex(r"[A-Za-z][a-z]*(?: [A-Za-z][a-z]*)*")


def quoted(name: str) -> str:
    """A recorded name inside a sentence: in quotes where it would be read as a word of it, such as “data”."""
    return f"“{name}”" if _PLAIN_WORDS.fullmatch(name) else name


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


_NAMED_BY_PEOPLE = (CulpritKind.REGION, CulpritKind.OPERATOR)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's own code, or the first line of the function where no more is known: ``is_call`` is false."""

    file: str
    line: int
    function: str = ""
    is_call: bool = True

    @staticmethod
    def of(place: str, function: str = "", *, is_call: bool = True) -> SourceLine | None:
        """From a recorded "train.py:12"; None for anything else."""
        file, _, line = place.rpartition(":")
        return SourceLine(file, int(line), function, is_call) if file and line.isdecimal() else None

    @property
    def text(self) -> str:
        """ "train.py:12", as compilers and editors write it."""
        return f"{self.file}:{self.line}"

    @property
    def told(self) -> str:
        """ "train.py:12, in load" or "load, which begins at train.py:12"."""
        if not self.function:
            return self.text
        return (
            f"{self.text}, in {self.function}"
            if self.is_call
            else f"{self.function}, which begins at {self.text}"
        )


@dataclass(frozen=True, slots=True)
class Culprit:
    """One culprit; ``place`` is what it stands in, such as the operator around a call, ``at`` the line to open."""

    kind: CulpritKind
    name: str
    place: Culprit | None = None
    note: str = ""  # what its name does not say, in a word or two
    at: SourceLine | None = None

    @property
    def text(self) -> str:
        """ "cudaLaunchKernel in aten::mm": as it is shown everywhere."""
        name = f"{self.name} ({self.note})" if self.note else self.name
        return f"{name} in {self.place.text}" if self.place is not None else name

    @property
    def said(self) -> str:
        """ "cudaMemcpyAsync in “data”": the same inside a sentence."""
        name = quoted(self.name) if self.kind in _NAMED_BY_PEOPLE else self.name
        name = f"{name} ({self.note})" if self.note else name
        return f"{name} in {self.place.said}" if self.place is not None else name

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
