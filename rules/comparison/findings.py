"""The findings of two recordings, paired: what is gone, costs less, costs more, or is new."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from parsers.model.late import dataclass
from parsers.model.names.kernels import base_name
from rules.findings.base import LOUD, Category, Finding


class Change(Enum):
    """What became of a finding."""

    GONE = "gone"
    NEARLY_GONE = "nearly gone"  # it is there, and no longer matters
    LESS = "less"
    SAME = "as before"
    MORE = "more"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A finding on both sides; the costs are its ceilings, in ns a step as recorded, like all of a comparison."""

    before: Finding | None
    after: Finding | None
    before_ns: float
    after_ns: float
    change: Change

    @property
    def finding(self) -> Finding:
        """The side that matters more, which names the fault; the newer one of two alike."""
        if self.before is not None and (self.after is None or self.is_resolved):
            return self.before
        assert self.after is not None
        return self.after

    @property
    def is_resolved(self) -> bool:
        """It mattered, and no longer does."""
        return _is_loud(self.before) and not _is_loud(self.after)

    @property
    def is_new(self) -> bool:
        """It matters now, and did not."""
        return _is_loud(self.after) and not _is_loud(self.before)


# the closest first
_ALIKE: tuple[Callable[[Finding], object], ...] = (
    lambda finding: (finding.rule, _kernel_of(finding), finding.culprit),
    lambda finding: (finding.rule, _kernel_of(finding)),
    lambda finding: (finding.category, _kernel_of(finding)),
)


def compare_findings(
    before: Iterable[Finding], after: Iterable[Finding], steps_ns: tuple[float, float], noise_ns: float
) -> list[FindingChange]:
    """Pair them by rule and culprit, then by rule, then by category; those that matter on either side, by cost.

    ``steps_ns`` is a step as recorded, before and after; a change below ``noise_ns`` is none.
    """
    left, right = _that_cost(before), _that_cost(after)
    pairs: list[tuple[Finding | None, Finding | None]] = []
    for key in _ALIKE:
        waiting: dict[object, list[Finding]] = {}
        for finding in right:
            waiting.setdefault(key(finding), []).append(finding)
        for finding in list(left):
            twins = waiting.get(key(finding))
            if twins:
                twin = twins.pop(0)
                pairs.append((finding, twin))
                left.remove(finding)
                right.remove(twin)
    pairs += [(finding, None) for finding in left] + [(None, finding) for finding in right]
    changes = [_changed(old, new, steps_ns, noise_ns) for old, new in pairs if _is_loud(old) or _is_loud(new)]
    return sorted(changes, key=lambda each: -max(each.before_ns, each.after_ns))


def _that_cost(findings: Iterable[Finding]) -> list[Finding]:
    """Without the sentence about what the GPU does when all is well, and without what only the recording costs."""
    return [each for each in findings if each.category is not Category.GPU_BOUND and not each.of_recording]


def _kernel_of(finding: Finding) -> str:
    """A fault that counters show is that of one kernel."""
    return base_name(finding.culprit.name) if finding.kernel is not None else ""


def _changed(
    before: Finding | None, after: Finding | None, steps_ns: tuple[float, float], noise_ns: float
) -> FindingChange:
    costs = tuple(
        finding.recorded_share * step if finding is not None else 0.0
        for finding, step in zip((before, after), steps_ns, strict=True)
    )
    if before is None or after is None:
        change = Change.NEW if before is None else Change.GONE
    elif abs(costs[1] - costs[0]) < noise_ns:
        change = Change.SAME
    elif costs[1] > costs[0]:
        change = Change.MORE
    else:
        change = Change.NEARLY_GONE if _is_loud(before) and not _is_loud(after) else Change.LESS
    return FindingChange(before, after, costs[0], costs[1], change)


def _is_loud(finding: Finding | None) -> bool:
    return finding is not None and finding.severity in LOUD
