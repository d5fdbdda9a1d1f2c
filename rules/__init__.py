"""The diagnosis: which rule found what, how much it can give at most, and where to see it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rules.diagnosis import Diagnosis, combined_ceiling, diagnose, diagnosis_of
    from rules.findings.base import Category, Evidence, Finding, Need, Rule, Severity
else:

    def __getattr__(name: str) -> object:
        """What is named below, found when it is first asked for: a window is there long before it judges anything."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from rules import diagnosis
        from rules.findings import base

        return getattr(diagnosis if hasattr(diagnosis, name) else base, name)


__all__ = [
    "Category",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Need",
    "Rule",
    "Severity",
    "combined_ceiling",
    "diagnose",
    "diagnosis_of",
]
