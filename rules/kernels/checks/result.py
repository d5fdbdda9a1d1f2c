"""What one check of one profiled launch concludes, and how checks are registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from parsers.model import KernelProfile
from parsers.model.late import dataclass
from rules.findings.base import Category


@dataclass(frozen=True, slots=True)
class KernelRuleResult:
    """The conclusion of one check on one launch.

    ``rule`` and ``section`` carry the names that Nsight Compute uses for the comparable check. ``subject`` names
    what it is about (a stall reason, a pipe, a limiter). ``speedup_percent`` is the estimated share of the time that
    could go: of the kernel when ``speedup_is_global``, else of the part that the check looks at.
    """

    rule: str
    section: str
    fired: bool
    text: str
    category: Category | None = None
    speedup_percent: float | None = None
    speedup_is_global: bool | None = None
    subject: str = ""

    @property
    def saving(self) -> float:
        """The estimated share, 0 to 1; 0 without an estimate."""
        return (self.speedup_percent or 0.0) / 100.0


Check = Callable[[KernelProfile], Iterable[KernelRuleResult]]
_CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """Register a check of one launch; it yields nothing when its metrics were not collected."""
    _CHECKS.append(function)
    return function


def checks() -> tuple[Check, ...]:
    """Every registered check, in the order of the report's sections."""
    return tuple(_CHECKS)


def numbers(kernel: KernelProfile, *metrics: str) -> tuple[float, ...] | None:
    """All of these metrics as floats; None when one is missing."""
    found = []
    for metric in metrics:
        if (value := kernel.number(metric)) is None:
            return None
        found.append(value)
    return tuple(found)


def first_number(kernel: KernelProfile, *metrics: str) -> float | None:
    """The first of these metrics that was collected."""
    for metric in metrics:
        if (value := kernel.number(metric)) is not None:
            return value
    return None
