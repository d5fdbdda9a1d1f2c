"""Which changes are tried, in which order, and how much of the time each gets."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.model.late import dataclass
from rules.fixes.base import fixes, switches_for, switches_of
from rules.fixes.plan import Promise
from rules.trials.trial import Candidate, Kind, Promised
from viewer.capture.request import CaptureProblem
from viewer.capture.torch_runner.stallscope_recorder.trials.catalogue import (
    SLOW_SETTLING,
    START,
    SWITCH,
    Change,
    catalogue,
)

MAX_WEIGHT = 4.0  # of the time that a change gets of which nothing is promised


@dataclass(frozen=True, slots=True)
class Choice:
    """Candidates in the order in which they are tried; ``starts`` come after the others, in launches of their own."""

    changes: tuple[Candidate, ...]
    starts: tuple[Candidate, ...]
    asked: bool = False

    def weight(self, candidate: Candidate) -> float:
        """Its part of the time, by what is promised of it."""
        promised = candidate.promised.expected if candidate.promised is not None else 1.0
        return min(MAX_WEIGHT, max(1.0, 1.0 + 2.0 * (promised - 1.0)))


def choice_of(promises: Sequence[Promise], asked: Sequence[str]) -> Choice:
    """What to try for some promises, or only what was asked for: ids of promises, of fixes, or names of changes.

    Raises ``CaptureProblem`` for what is none of these, or cannot be tried.
    """
    known = catalogue()
    promised = _promised(promises)
    if asked:
        names = list(dict.fromkeys(name for each in asked for name in _names(each, promises, known)))
    else:
        usual = [name for name, change in known.items() if change.usual]
        behind = [known[name].ceiling for name in promised if known[name].ceiling]
        names = sorted(  # what compiles comes after what is quick
            dict.fromkeys([*promised, *behind, *usual]),
            key=lambda name: (known[name].first_settle > SLOW_SETTLING, known[name].level != SWITCH),
        )
    candidates = [_candidate(known[name], promised.get(name)) for name in names]
    return Choice(
        tuple(each for each in candidates if each.kind is not Kind.START),
        tuple(each for each in candidates if each.kind is Kind.START),
        bool(asked),
    )


def candidate_named(name: str, promises: Sequence[Promise] = ()) -> Candidate:
    """The candidate of one change of the catalogue."""
    return _candidate(catalogue()[name], _promised(promises).get(name))


def starts_after(choice: Choice, gains: Sequence[str], losers: Sequence[str]) -> tuple[Candidate, ...]:
    """The starts that are worth a launch, by the ceilings that were proved and those that gave nothing.

    What somebody asked for is always tried.
    """
    if choice.asked:
        return choice.starts
    known = catalogue()
    kept = [each for each in choice.starts if known[each.switch].ceiling not in losers]
    have = {each.switch for each in kept}
    more = [
        candidate_named(name)
        for name, change in known.items()
        if change.level == START and change.ceiling in gains and name not in have
    ]
    return (*kept, *more)


def _promised(promises: Sequence[Promise]) -> dict[str, tuple[str, Promised]]:
    """Of each change the promise that it would keep: the first, which is the one to begin with."""
    found: dict[str, tuple[str, Promised]] = {}
    for promise in promises:
        for name in switches_for(promise.proposal):
            found.setdefault(name, (promise.id, Promised(promise.low, promise.expected, promise.high)))
    return found


def _candidate(change: type[Change], promised: tuple[str, Promised] | None) -> Candidate:
    fix, factors = promised if promised is not None else ("", None)
    return Candidate(
        change.name, Kind(change.level), change.title, fix, factors, rounds=change.group == "precision"
    )


def _names(asked: str, promises: Sequence[Promise], known: dict[str, type[Change]]) -> tuple[str, ...]:
    if asked in known:
        return (asked,)
    of_promise = next((each.proposal for each in promises if each.id == asked), None)
    stem, dash, number = asked.rpartition("-")
    fix = of_promise.fix if of_promise else stem if dash and number.isdecimal() else asked
    wanted = switches_for(of_promise) if of_promise else switches_of(fix)
    names = tuple(name for name in wanted if name in known)
    if names:
        return names
    if fix in {each.id for each in fixes()}:
        raise CaptureProblem(
            f"{asked} cannot be tried: it needs a change of the code that no setting makes.",
            f"These can be tried: {', '.join(_tried())}.",
        )
    raise CaptureProblem(
        f"There is no fix and no change {asked!r}.", f"These can be tried: {', '.join([*_tried(), *known])}."
    )


def _tried() -> list[str]:
    return [each.id for each in fixes() if switches_of(each.id)]
