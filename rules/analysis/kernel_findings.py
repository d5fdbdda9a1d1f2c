"""Makes findings of what is wrong inside a kernel: one for each group of equal launches, weighed by its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from parsers.model import KernelProfile, Trace
from parsers.model.units import duration
from rules.analysis.kernel_groups import KernelGroup, groups_worth_reading, profiled_ns
from rules.analysis.kernel_result import KernelRuleResult
from rules.analysis.kernel_rules import evaluate
from rules.analysis.kernel_speed_of_light import HIGH_PERCENT, speed_of_light
from rules.base import Category, Finding, Need, Severity, severity_of

LONGEST_NAME = 70
NOT_WALL_TIME = (
    "The times are those under Nsight Compute, which serialises kernels, flushes caches and fixes clocks: compare"
    " them with each other, not with wall time."
)
ONE_LAUNCH = "Only one launch of it was profiled, maybe the warm-up: profile a later one too (--launch-skip)."


@dataclass(frozen=True, slots=True)
class Fault:
    """What a rule says about one kernel. ``saving`` is the share (0 to 1) of its time that could go at most."""

    title: str
    explanation: str
    advice: tuple[str, ...]
    saving: float
    category: Category
    code: str = ""
    cannot_tell: str = ""
    confidence: str = "medium"
    severity: Severity | None = None


def short_name(name: str) -> str:
    """A kernel's name without its template arguments and parameters, so that it fits into a title."""
    if len(name) <= LONGEST_NAME:
        return name
    plain = name.removeprefix("void ")
    plain = plain.replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
    text = (_outside_of_angles(plain).partition("(")[0]).strip() or plain
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _outside_of_angles(name: str) -> str:
    depth = 0
    kept: list[str] = []
    for letter in name:
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif depth == 0:
            kept.append(letter)
    return "".join(kept)


def results_of(kernel: KernelProfile, rule: str) -> list[KernelRuleResult]:
    """What one check says about a kernel, fired only, strongest first."""
    fired = [each for each in evaluate(kernel) if each.rule == rule and each.fired]
    return sorted(fired, key=lambda each: -(each.speedup_percent or 0.0))


def findings(rule: str, trace: Trace, groups: Iterable[tuple[KernelGroup, Fault]]) -> Iterator[Finding]:
    """One finding for each group that has the fault."""
    window = profiled_ns(trace)
    for group, fault in groups:
        ceiling = round(min(max(fault.saving, 0.0), 1.0) * group.total_ns)
        times = f"{group.count} launches, " if group.count > 1 else ""
        share = f", {100 * group.total_ns / window:.0f} % of the profiled time" if window else ""
        where = f" ({times}{duration(group.total_ns)}{share}.)" if group.total_ns else ""
        notes = [NOT_WALL_TIME, *([ONE_LAUNCH] if group.only_first_launch else []), fault.cannot_tell]
        yield Finding(
            rule=rule,
            category=fault.category,
            severity=fault.severity or severity_of(ceiling, window),
            title=f"{short_name(group.name)}: {fault.title}",
            explanation=f"{fault.explanation}{where}",
            advice=fault.advice,
            ceiling_ns=ceiling,
            window_ns=window,
            culprit=group.name,
            kernel=group.representative.id,
            code=fault.code,
            cannot_tell=" ".join(note for note in notes if note),
            confidence=fault.confidence,
        )


class KernelRule:
    """A rule that looks at one profiled kernel at a time: subclasses say what is wrong with it, if anything."""

    id: ClassVar[str]
    needs: ClassVar[frozenset[Need]] = frozenset({Need.KERNEL_COUNTERS})

    def fault(self, kernel: KernelProfile) -> Fault | None:
        """What is wrong with the launch that speaks for its group; None when nothing is."""
        raise NotImplementedError

    def check(self, trace: Trace) -> Iterable[Finding]:
        """One finding for each group of equal launches that has the fault."""
        found = ((group, self.fault(group.representative)) for group in groups_worth_reading(trace))
        yield from findings(self.id, trace, ((group, fault) for group, fault in found if fault is not None))


def runs_at_the_compute_limit(kernel: KernelProfile) -> bool:
    """Whether the arithmetic units are so busy that waits and memory accesses cost nothing."""
    sol = speed_of_light(kernel)
    return sol is not None and sol.compute >= HIGH_PERCENT
