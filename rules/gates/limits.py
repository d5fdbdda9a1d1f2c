"""Limits on what may get worse, as they are written on a command line or in a TOML file of a repository."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.findings.base import Severity
from rules.gates.figures import RunFigures, figures_of
from rules.terms import DEFAULTS, Thresholds, known_thresholds

MAX_PERCENT = 1e6


class Quantity(Enum):
    """What a limit is on; the value is how it is written."""

    STEP_TIME = "step-time"
    P99 = "p99"
    KERNEL_TIME = "kernel-time"
    COLLECTIVE_TIME = "collective-time"
    LAUNCHES = "launches"
    MEMORY_PEAK = "memory-peak"
    THROUGHPUT = "throughput"
    REGION = "region"
    KERNEL = "kernel"

    @property
    def is_named(self) -> bool:
        """Whether it is that of something with a name."""
        return self in (Quantity.REGION, Quantity.KERNEL)


@dataclass(frozen=True, slots=True)
class Limit:
    """The quantity may not get worse by this many percent; ``name`` is that of a region or a kernel."""

    quantity: Quantity
    percent: float
    name: str = ""

    @property
    def written(self) -> str:
        """ "launches", "kernel:gemm"."""
        return f"{self.quantity.value}:{self.name}" if self.name else self.quantity.value


@dataclass(frozen=True, slots=True)
class Gates:
    """What a repository asks for; ``items`` are those of one step before and after, ``fail_on`` is for a diagnosis."""

    limits: tuple[Limit, ...] = ()
    items: tuple[float, float] | None = None
    fail_on: Severity | None = None
    thresholds: Thresholds = DEFAULTS

    def figures_of(self, analysis: Analysis) -> RunFigures:
        """The figures of a run, with the kernels and regions that the limits name among them."""
        named = {
            quantity: [each.name for each in self.limits if each.quantity is quantity]
            for quantity in (Quantity.KERNEL, Quantity.REGION)
        }
        return figures_of(analysis, named[Quantity.KERNEL], named[Quantity.REGION])


def percentage(value: object) -> float:
    """5 for 5, "5" and "5%"; raises ValueError otherwise."""
    number = -1.0
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            number = float(value.strip().removesuffix("%") if isinstance(value, str) else value)
        except ValueError:
            number = -1.0
    if not 0.0 <= number < MAX_PERCENT:
        raise ValueError(f"{value!r} is not a percentage such as 5 or 5%")
    return number


def limit_of(text: str) -> Limit:
    """From "5%", "launches=0", "kernel:gemm=5%"; raises ValueError, which says what is wrong."""
    what, equals, value = text.rpartition("=")
    if not equals:
        return Limit(Quantity.STEP_TIME, percentage(value))
    kind, _, name = what.partition(":")
    return _limit(kind, name, value)


def _limit(kind: str, name: str, value: object) -> Limit:
    try:
        quantity = Quantity(kind)
    except ValueError:
        known = ", ".join(f"{each.value}:NAME" if each.is_named else each.value for each in Quantity)
        raise ValueError(f"{kind!r} cannot be limited; choose from {known}") from None
    if quantity.is_named and not name:
        raise ValueError(f"{kind} needs a name, as in {kind}:NAME=5%")
    if name and not quantity.is_named:
        raise ValueError(f"{kind} takes no name: write {kind}=5%")
    percent = percentage(value)
    if quantity is Quantity.THROUGHPUT and percent >= 100:
        raise ValueError("a throughput cannot fall by 100 % or more")
    return Limit(quantity, percent, name)


def items_of(value: object) -> tuple[float, float]:
    """Items of one step before and after: from 64, "64", or "64,128" where they differ; raises ValueError."""
    parts = str(value).split(",") if not isinstance(value, list) else value
    try:
        numbers = [float(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (1, 2) or not all(0 < number < 1e12 for number in numbers):
        raise ValueError(
            f"{value!r} is not a number of items per step, such as 64, or 64,128 for before and after"
        )
    return numbers[0], numbers[-1]


def gates_of(text: str) -> Gates:
    """From a TOML file; raises ValueError, which says what is wrong."""
    stated = tomllib.loads(text)
    unknown = stated.keys() - {"limits", "per-step-items", "fail-on", "thresholds"}
    if unknown:
        raise ValueError(
            f"{', '.join(sorted(unknown))} is not known here; choose from limits, per-step-items, fail-on, thresholds"
        )
    limits = tuple(_limits(_table(stated, "limits")))
    items = items_of(stated["per-step-items"]) if "per-step-items" in stated else None
    level = stated.get("fail-on")
    levels = {each.value: each for each in Severity if each is not Severity.INFO}
    if level is not None and level not in levels:
        raise ValueError(f"fail-on = {level!r} is not one of {', '.join(levels)}")
    return Gates(limits, items, levels[level] if level else None, _thresholds(_table(stated, "thresholds")))


def _table(stated: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = stated.get(name, {})
    if not isinstance(table, Mapping):
        raise ValueError(f"{name} must be a table, as in [{name}]")
    return table


def _limits(stated: Mapping[str, Any]) -> Iterator[Limit]:
    for kind, value in stated.items():
        if isinstance(value, Mapping):
            for name, percent in value.items():
                yield _limit(kind, name, percent)
        else:
            yield _limit(kind, "", value)


def _thresholds(stated: Mapping[str, Any]) -> Thresholds:
    known = {each.key: each for each in known_thresholds()}
    chosen = {}
    for name, written in stated.items():
        if name not in known:
            raise ValueError(f"{name!r} is not one of {', '.join(known)}")
        value = known[name].parsed(str(written))
        if value is None:
            bounds = f"{known[name].written(known[name].least)} to {known[name].written(known[name].most)}"
            raise ValueError(f"{written!r} is not allowed for {name}; it may be {bounds}")
        chosen[name] = value
    return Thresholds(chosen)
