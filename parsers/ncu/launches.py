"""Joins what several tables say about one launch and gives every launch an id of its own."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model import KernelProfile
from parsers.ncu.pages import Launch


def profiles_of(launches: Iterable[Launch]) -> list[KernelProfile]:
    """Profiles in the order of the file.

    A raw and a details page of the same launch become one profile; the same number in a second recording
    that was appended to the file gets an id of its own ("0#2").
    """
    kept: list[Launch] = []
    by_identity: dict[tuple[object, ...], list[Launch]] = {}
    for launch in launches:
        same = by_identity.setdefault(launch.identity, [])
        other_page = next((each for each in same if each.from_labels != launch.from_labels), None)
        if other_page is not None and _agree(other_page, launch):
            _join(other_page, launch)
            continue
        same.append(launch)
        kept.append(launch)
    used: dict[str, int] = {}
    profiles: list[KernelProfile] = []
    units: dict[str, str] = {}
    for position, launch in enumerate(kept):
        number = launch.number or str(position)
        used[number] = used.get(number, 0) + 1
        units = launch.units = units if launch.units == units else launch.units
        profiles.append(launch.build(number if used[number] == 1 else f"{number}#{used[number]}"))
    return profiles


def _agree(one: Launch, other: Launch) -> bool:
    """Two pages of one report state the same duration, up to rounding."""
    durations = [each.metrics.get("gpu__time_duration.sum") for each in (one, other)]
    if not all(isinstance(each, (int, float)) for each in durations):
        return True
    first, second = (float(each) for each in durations if each is not None)
    return abs(first - second) <= 0.01 * max(abs(first), abs(second))


def _join(into: Launch, more: Launch) -> None:
    """The page with the metrics' own names is the more exact one."""
    exact, labelled = (more, into) if into.from_labels else (into, more)
    into.metrics = {**labelled.metrics, **exact.metrics}
    into.units = {**labelled.units, **exact.units}
    into.instances = {**labelled.instances, **exact.instances}
    into.rules = into.rules or more.rules
    into.from_labels = False
