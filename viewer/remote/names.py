"""What a place is called: ``ssh:HOST``, ``slurm:HOST --nodes 2``, ``ssh:HOST/container:NAME``, and its setup line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from parsers.model import TraceError
from parsers.model.catalogs import load_all
from parsers.model.late import dataclass
from viewer.user_data.storage import data_folder, write_text

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

    def words(self, words: Sequence[str]) -> list[str]:
        """Words that run ``words`` there when they are run here."""

    def is_lost(self, exit_code: int) -> bool:
        """Whether a process that ended so lost its connection, and so says nothing about what it ran."""

    def close(self) -> None: ...


@runtime_checkable
class Queue(Protocol):
    """A place that starts programs as jobs, with options that are written after its name."""

    def base(self, options: Sequence[str]) -> str:
        """Where folders are made that every machine of a job sees."""

    def submission(
        self, folder: str, setup: str, options: Sequence[str], spread: str, words: Sequence[str]
    ) -> list[str]:
        """Words that submit these words as a job and follow it.

        ``spread`` says how often they are run: once a ``task``, once a ``node``, or once in the ``batch`` script.
        """


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

    ``setup`` is the line of a shell that prepares the environment there, such as ``module load cuda``; ``options`` go
    to the scheduler, such as ``--nodes 2``.
    """

    steps: tuple[tuple[str, str], ...] = ()
    setup: str = ""
    options: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As it is written on a command line."""
        return " ".join([self.title, shlex.join(self.options)]).strip()

    @property
    def title(self) -> str:
        """As messages call it."""
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
    head, options = _options(text)
    for part in _parts(head):
        kind, colon, name = part.partition(":")
        if kind not in place_kinds() or (colon and not name):
            raise PlaceProblem(text, "No place is named.", f"Write it like {_examples()}.")
        if name.startswith("-") or not name.isprintable():
            raise PlaceProblem(text, f"{name!r} is not the name of a place.", f"Write it like {_examples()}.")
        steps.append((kind, name.strip()))
    if any(issubclass(place_kinds()[kind], Queue) for kind, _ in steps[:-1]):
        raise PlaceProblem(
            text, "A job must be the last part of a place.", "Start the container in the command itself."
        )
    made = PlaceName(tuple(steps), setup, options)
    made.reach()  # refuses what cannot be combined
    return made


def _options(text: str) -> tuple[str, tuple[str, ...]]:
    """The name of a place, and what follows it for its scheduler; names of other places may hold spaces."""
    head, _, rest = text.partition(" ")
    kind = _parts(head)[-1].partition(":")[0]
    if kind not in place_kinds() or not issubclass(place_kinds()[kind], Queue):
        return text, ()
    try:
        options = tuple(shlex.split(rest))
    except ValueError:
        raise PlaceProblem(
            text, "A quote is not closed.", f"Write it like {place_kinds()[kind].example}."
        ) from None
    if options and not options[0].startswith("-"):
        raise PlaceProblem(
            text,
            f"{options[0]!r} is not an option of a job.",
            f"Write it like {place_kinds()[kind].example}.",
        )
    return head, options


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


def remembered() -> dict[str, PlaceName]:
    """Every place that has a name, in their order; those that cannot be read any more are left out."""
    found = {}
    for name, kept in _read().items():
        try:
            found[name] = place_of(str(kept["place"]), str(kept.get("setup", "")))
        except (PlaceProblem, KeyError, TypeError):
            continue
    return found


def find_place(text: str, setup: str = "") -> PlaceName:
    """The place of that name, or the one that the text itself names; raises ``PlaceProblem``."""
    known = remembered().get(text.strip())
    if known is not None:
        return replace(known, setup=setup or known.setup)
    return place_of(text, setup)


def remember(name: str, place: PlaceName) -> None:
    """Give a place a name; raises ``PlaceProblem`` for a name that reads like a place."""
    name = name.strip()
    if not name or name.partition(":")[0] in place_kinds() or "/" in name or not name.isprintable():
        raise PlaceProblem(name, "This cannot be the name of a place.", "Choose a single word, such as box.")
    _write({**_read(), name: {"place": place.text, "setup": place.setup}})


def forget(name: str) -> bool:
    """Forget a name; whether it was known."""
    kept = _read()
    if name not in kept:
        return False
    _write({key: value for key, value in kept.items() if key != name})
    return True


def _path() -> Path:
    return data_folder() / "places.json"


def _read() -> dict[str, dict[str, str]]:
    try:
        kept = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _write(kept: dict[str, dict[str, str]]) -> None:
    _path().parent.mkdir(parents=True, exist_ok=True)
    write_text(_path(), json.dumps(kept, ensure_ascii=False, indent=1))
