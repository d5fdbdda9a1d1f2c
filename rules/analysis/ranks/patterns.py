"""Which ranks are late together, and when: a rank, a node, a stage, a rail; in every step, from one on, every n-th."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import BOOL, F64, I64, distinct_values, in_both, median_of
from parsers.model.late import dataclass
from rules.analysis.ranks.groups import NODE, PIPELINE, RANK, Dimension
from rules.analysis.ranks.lateness import Lateness, above_noise

MAX_PATTERNS = 4
MIN_SHARE = 0.01  # of a step: what is less late than that is no pattern
TOGETHER = 0.25  # of the members may be on time
LOUD = 0.3  # of the latest step: the others are steps in which they are on time
ALWAYS = 0.8  # of the steps from the first late one
RHYTHM = 3  # late steps, at least, at equal distances
EVEN_STEPS = 1  # by how much such distances may differ
NEVER = -1


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """When something happens: in ``steps`` (indices) of ``count``.

    ``since`` is the first of them where it is so in nearly every step from then on, ``every`` their distance where it
    is even; else NEVER.
    """

    steps: I64
    count: int
    since: int
    every: int


def course_of(steps: I64, count: int) -> Course:
    """Whether these of ``count`` steps are all from one on, or follow a rhythm."""
    if not len(steps):
        return Course(steps, count, NEVER, NEVER)
    since = int(steps[0]) if len(steps) >= ALWAYS * (count - steps[0]) else NEVER
    apart = np.diff(steps)
    even = since == NEVER and len(steps) >= RHYTHM and apart.min() > 1 and np.ptp(apart) <= EVEN_STEPS
    return Course(steps, count, since, round(float(apart.mean())) if even else NEVER)


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """``rows`` are late by ``late_ns``, the median over their late steps.

    ``kind`` and ``name`` say what they are: a rank, or all ranks of a node, stage or other group.
    """

    kind: str
    name: str
    rows: I64
    late_ns: int
    course: Course


@dataclass(frozen=True, slots=True, eq=False)
class Party:
    """Late rows and what they are called together."""

    name: str
    rows: I64


def patterns_of(lateness: Lateness) -> tuple[Pattern, ...]:
    """At most ``MAX_PATTERNS``, the one that covers most lateness first."""
    run = lateness.run
    if not len(run.step_numbers):
        return ()
    left = above_noise(lateness.late, lateness.stage)
    usual = float(median_of(run.by_step.sum(axis=2)))
    left[left < MIN_SHARE * usual] = 0.0
    found: list[Pattern] = []
    stages = _late_stages(lateness, usual)
    while len(found) < MAX_PATTERNS - len(stages):
        best = _largest(lateness, left)
        if best is None:
            break
        found.append(best)
        left[np.ix_(best.rows, best.course.steps)] = 0.0
        if best.course.since != NEVER:
            left[best.rows] = 0.0
    joined = [*stages, *found]
    return tuple(sorted(joined, key=lambda each: -each.late_ns * len(each.course.steps) * len(each.rows)))


def _largest(lateness: Lateness, left: F64) -> Pattern | None:
    """The group, or the single rank, whose common lateness covers most."""
    covered = left.sum(axis=1)
    row = int(covered.argmax()) if len(covered) else 0
    if not len(covered) or covered[row] <= 0:
        return None
    best = _Group(float(covered[row]), RANK, lateness.run.name(row), np.array([row]), left[row])
    for dimension in lateness.dimensions:
        common = _common(dimension, left)
        sizes = np.bincount(dimension.label[dimension.label >= 0], minlength=len(dimension.names))
        score = np.where(sizes > 1, common.sum(axis=1) * sizes, 0.0)
        if (label := int(score.argmax())) < 0 or score[label] <= 0:
            continue
        alike = np.flatnonzero((score > 0) & _same_steps(common, common[label]))
        whole = float(score[alike].sum())
        if whole > best.score:
            rows = np.flatnonzero(np.isin(dimension.label, alike))
            best = _Group(whole, dimension.kind, _called(dimension, alike), rows, common[alike].mean(axis=0))
    steps = np.flatnonzero(best.common > LOUD * best.common.max())
    late = int(median_of(left[np.ix_(best.rows, steps)]))
    return Pattern(best.kind, best.name, best.rows, late, course_of(steps, left.shape[1]))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Rows that are late together; ``score`` is the lateness that their ``common`` one (steps) covers."""

    score: float
    kind: str
    name: str
    rows: I64
    common: F64


def _common(dimension: Dimension, left: F64) -> F64:
    """(labels, steps): how late all but a quarter of each label's rows are at least."""
    found = np.zeros((len(dimension.names), left.shape[1]))
    late = np.flatnonzero(left.any(axis=1))
    for label in distinct_values(dimension.label[late]).tolist():
        members = dimension.members(label) if label >= 0 else late[:0]
        if len(members) > 1:
            place = int(TOGETHER * (len(members) - 1))
            found[label] = np.partition(left[members], place, axis=0)[place]
    return found


def _same_steps(common: F64, other: F64) -> BOOL:
    """Which labels are late in the same steps as another one."""
    loud = common > LOUD * np.maximum(common.max(axis=1, keepdims=True), 1.0)
    theirs = other > LOUD * other.max()
    both, either = (loud & theirs).sum(axis=1), (loud | theirs).sum(axis=1)
    return np.asarray(both >= (1 - TOGETHER) * np.maximum(either, 1), bool)


def _called(dimension: Dimension, labels: I64) -> str:
    """ "node 3", "node 0 to node 31", or "node 3 and 4 more"."""
    first = dimension.names[int(labels[0])]
    if len(labels) == 1:
        return first
    if np.ptp(labels) == len(labels) - 1:
        return f"{first} to {dimension.names[int(labels[-1])]}"
    return f"{first} and {len(labels) - 1} more"


def _late_stages(lateness: Lateness, usual: float) -> list[Pattern]:
    """A pipeline stage that takes longer than the median stage in nearly every step."""
    pipeline = next((each for each in lateness.dimensions if each.kind == PIPELINE), None)
    if pipeline is None:
        return []
    own = np.array(
        [median_of(lateness.own[pipeline.members(label)], axis=0) for label in range(len(pipeline.names))]
    )
    beyond = own - np.quantile(own, 0.5, axis=0, method="lower")
    label = int(beyond.sum(axis=1).argmax())
    steps = np.flatnonzero(beyond[label] >= MIN_SHARE * usual)
    if len(steps) < ALWAYS * own.shape[1] or median_of(beyond[label]) < NOTEWORTHY_STAGE * usual:
        return []
    late = int(median_of(beyond[label][steps]))
    course = course_of(steps, own.shape[1])
    return [Pattern(PIPELINE, pipeline.names[label], pipeline.members(label), late, course)]


NOTEWORTHY_STAGE = 0.05  # of a step: the last stage has the loss, which is nothing to mend


def parties_of(lateness: Lateness, rows: tuple[int, ...]) -> tuple[Party, ...]:
    """Some late rows by their node or group where they are most of it, else by rank."""
    chosen = np.array(rows, np.int64)
    for dimension in sorted(lateness.dimensions, key=lambda dimension: dimension.kind != NODE):
        labels = dimension.label[chosen]
        for label in distinct_values(labels[labels >= 0]).tolist():
            members = dimension.members(label)
            if len(members) > 1 and _alike(members, chosen):
                return (Party(f"{dimension.names[label]} ({len(members)} ranks)", chosen),)
    few = [Party(lateness.run.name(row), np.array([row])) for row in rows[:MAX_NAMED]]
    more = [Party(f"{len(rows) - MAX_NAMED} more ranks", chosen[MAX_NAMED:])] if len(rows) > MAX_NAMED else []
    return (*few, *more)


MAX_NAMED = 3


def _alike(members: I64, chosen: I64) -> bool:
    both = len(in_both(members, chosen))
    return both >= (1 - TOGETHER) * max(len(members), len(chosen))
