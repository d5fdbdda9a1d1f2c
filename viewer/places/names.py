"""What a place is called: ``ssh:HOST``, ``container:NAME``, ``ssh:HOST/container:NAME``, with its environment line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol, TypeVar

from parsers.model import TraceError
from parsers.model.catalogs import load_all

HERE = "here"


class PlaceProblem(TraceError):
    """A place that cannot be reached or used; ``path`` is what it is called."""


class Unreachable(PlaceProblem):
    """There is no connection, or it broke: what was started there goes on."""


class Reach(Protocol):
    """How words are run at a place, and what it takes to get there."""

    kind: ClassVar[str]
    title: ClassVar[str]
    example: ClassVar[str]

    def __init__(self, name: str, below: Reach | None) -> None: ...

    def open(self) -> None:
        """Get there; raises ``PlaceProblem``."""
        ...

    def words(self, words: Sequence[str]) -> list[str]:
        """Words that run ``words`` there when they are run here."""
        ...

    def is_lost(self, exit_code: int) -> bool:
        """Whether a process that ended so lost its connection, and so says nothing about what it ran."""
        ...

    def close(self) -> None:
        """Leave nothing on this machine that belongs to the connection."""
        ...


Kind = TypeVar("Kind", bound=type[Reach])
_KINDS: dict[str, type[Reach]] = {}


def place_kind(kind: Kind) -> Kind:
    """Register a kind of place."""
    _KINDS[kind.kind] = kind
    return kind


@cache
def place_kinds() -> dict[str, type[Reach]]:
    """Every kind of place by what its names begin with."""
    load_all(f"{__package__}.kinds")
    return dict(sorted(_KINDS.items()))


@dataclass(frozen=True, slots=True)
class PlaceName:
    """A place as it is written: ``steps`` lead there, each a kind and a name; none for this machine.

    ``setup`` is the line of a shell that prepares the environment there, such as ``module load cuda``.
    """

    steps: tuple[tuple[str, str], ...] = ()
    setup: str = ""

    @property
    def text(self) -> str:
        """As it is written on a command line."""
        return "/".join(f"{kind}:{name}" if name else kind for kind, name in self.steps) or HERE

    def reach(self) -> Reach | None:
        """How to get there; None for this machine."""
        reached: Reach | None = None
        for kind, name in self.steps:
            reached = place_kinds()[kind](name, reached)
        return reached


def place_of(text: str, setup: str = "") -> PlaceName:
    """The place that a text names; raises ``PlaceProblem``."""
    text = text.strip()
    if text in ("", HERE):
        return PlaceName((), setup)
    steps: list[tuple[str, str]] = []
    for part in _parts(text):
        kind, colon, name = part.partition(":")
        if kind not in place_kinds() or (colon and not name):
            raise PlaceProblem(text, "This names no place.", f"Write it like {_examples()}.")
        if name.startswith("-") or not name.isprintable():
            raise PlaceProblem(text, f"{name!r} is no name of a place.", f"Write it like {_examples()}.")
        steps.append((kind, name.strip()))
    made = PlaceName(tuple(steps), setup)
    made.reach()  # refuses what cannot be combined
    return made


def _parts(text: str) -> list[str]:
    """Split before each word that is a kind: names of images and pods hold slashes, too."""
    parts: list[str] = []
    for word in text.split("/"):
        if not parts or word.partition(":")[0] in place_kinds():
            parts.append(word)
        else:
            parts[-1] += f"/{word}"
    return parts


def _examples() -> str:
    written = [kind.example for kind in place_kinds().values()]
    return f"{', '.join(written)} or {HERE}"


@dataclass(slots=True)
class Bounds:
    """Seconds that a request may take before its connection counts as lost."""

    connect: float = 20.0
    request: float = 60.0
    keep_alive: int = 5
    missed: int = 3


BOUNDS = Bounds()
