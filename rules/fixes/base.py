"""What a fix is, where it would be applied, and how fixes are discovered."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import ClassVar, Protocol, TypeVar

from parsers.model.catalogs import load_all
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.remedies.remedy import Remedy as Remedy
from rules.remedies.remedy import remedy as remedy
from rules.replay.replay import Change, Replay
from rules.wording.words import Words

# of the GPU's time, that what a fix makes faster takes, where the fix names no other one
MIN_GPU_SHARE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """One change at one place: what would be different in a replay, and what it is told as.

    ``expected`` is what most likely becomes different; ``low`` and ``high`` are the least and the most that the change
    can do, where what the recording does not say (``depends_on``) decides between them. They are applied to columns
    that other fixes may have changed before, and must not assume the recorded values.
    """

    title: str
    categories: tuple[Category, ...]
    remedy: Remedy
    expected: Change
    key: str = ""  # one place: the same in every recording of the same program
    fix: str = ""  # the id of the fix that proposes it, which the plan puts in
    low: Change | None = None  # as expected
    high: Change | None = None
    culprit: str = ""
    problem: Words = ""  # what is wrong, in a title, where no rule tells it by its name
    rank: int | None = None
    depends_on: str = ""
    redesign: bool = False
    # it changes much of the program: of two that give as much, the other one is told first
    broad: bool = False
    switches: tuple[str, ...] | None = None  # which of the fix's try it; None: all


class Fix(Protocol):
    """One kind of change. ``explanation`` has the headings of ``EXPLANATION_HEADINGS``.

    ``switches`` are the changes that the recorder can make in the running program to try it; none for most fixes.
    """

    id: ClassVar[str]
    switches: ClassVar[tuple[str, ...]] = ()
    explanation: ClassVar[str]

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """Where it could be applied in a recording; what it would gain is judged by the replay alone."""


EXPLANATION_HEADINGS = ("When it applies", "What is changed", "What makes it more or less")

F = TypeVar("F", bound=type)
_FIXES: dict[str, Fix] = {}


def fix(cls: F) -> F:
    """Register a fix class."""
    instance = cls()
    _FIXES[instance.id] = instance
    return cls


@cache
def _discover() -> None:
    load_all(f"{__package__}.catalog")


def switches_of(fix_id: str) -> tuple[str, ...]:
    """The changes of the recorder that realise a fix of the catalogue; empty where there are none."""
    _discover()
    found: tuple[str, ...] = getattr(_FIXES.get(fix_id), "switches", ())
    return found


def switches_for(proposal: Proposal) -> tuple[str, ...]:
    """The changes of the recorder that realise what is proposed at one place."""
    return switches_of(proposal.fix) if proposal.switches is None else proposal.switches


def fixes() -> list[Fix]:
    """Every fix of ``rules.fixes.catalog``, by id."""
    _discover()
    return [_FIXES[name] for name in sorted(_FIXES)]
