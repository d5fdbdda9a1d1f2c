"""The checks that were left out, by what they lack: one line for each reason."""

from __future__ import annotations

from rules import Diagnosis

MAX_CHECKS = 10  # that are left out for one reason and still named


def unchecked(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The checks that lack the same, and what that is."""
    reasons: dict[str, list[str]] = {}
    for rule, reason in sorted(diagnosis.skipped.items()):
        reasons.setdefault(reason, []).append(rule)
    return [(_named(checks), reason) for reason, checks in reasons.items()]


def _named(checks: list[str]) -> str:
    """The checks by name, or how many they are where all are about counters or so many that nobody reads them."""
    if len(checks) < MAX_CHECKS:
        return ", ".join(checks)
    of_kernels = all(name.startswith("kernel-") for name in checks)
    what = "single kernels" if of_kernels else "what runs on a timeline"
    return f"{len(checks)} checks of {what} (--json names them)"
