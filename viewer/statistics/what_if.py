"""What fixes would give, as rows for the timeline and parts of bars, and what the critical path is made of; no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from parsers.model import I64, EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.kernels import kernel_name
from parsers.model.names.steps import engine_step
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import classify
from rules.fixes.plan import Outcome, Plan
from rules.fixes.simulation import Part, Simulation, StepTimeline, simulate
from rules.fixes.step_time import step_times
from rules.replay.critical_path import CriticalPath, PathKind
from rules.verdict.verdict import budget_parts
from viewer.appearance.naming import plain_name
from viewer.timeline.geometry.derived import ABOVE_ALL, GHOST, PATH, Derived, Frame, derived_row
from viewer.timeline.geometry.tracks import Track
from viewer.timeline.kinds.base import style_of

if TYPE_CHECKING:
    from PySide6.QtGui import QColor

    from viewer.appearance.theme import Theme

MAX_NAMED = 500  # pieces of host time that are named by their region, the longest ones
MAX_STREAMS = 3  # of a device, those with the most work
UNLIKE_OTHERS = 0.1  # of the average step: then a step that is drawn is not taken for it
STREAM_HEIGHT, MIN_HEIGHT, PATH_HEIGHT = 18, 40, 30
PATH_NAMES = {
    PathKind.COMPUTE: "computing",
    PathKind.LAUNCH: "launching",
    PathKind.HOST: "work of its own on the CPU",
    PathKind.COMMUNICATION: "communicating",
    PathKind.COPY: "copying",
    PathKind.WAIT: "coming back from a wait",
}
_WORKING = ("compute", "communication", "copy", "other")
PART_LABELS = {
    Part.COMPUTE: "compute",
    Part.COMMUNICATION: "exposed communication",
    Part.COPY: "exposed copies",
}


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Some fixes made together: the step on every device of the replay, the busiest one first."""

    ids: tuple[str, ...]
    outcome: Outcome
    steps: tuple[Simulation, ...]
    whose: str = ""  # the first of them, where there are several


def predict(plan: Plan, ids: Sequence[str]) -> Prediction:
    """Replay these fixes together; KeyError for an unknown id."""
    outcome = plan.predict(ids)
    nodes = plan.replay.device
    busy = np.bincount(nodes.device, nodes.duration)
    devices = sorted(np.flatnonzero(busy).tolist(), key=lambda device: -busy[device])
    steps = tuple(simulate(plan, outcome, device) for device in devices)
    first = plan.replay.analysis.trace.devices[devices[0]] if len(devices) > 1 else None
    rank = f", rank {first.rank}" if first is not None and first.rank is not None else ""
    return Prediction(tuple(ids), outcome, steps, f"GPU {first.id}{rank}" if first is not None else "")


def ghosts(trace: Trace, prediction: Prediction) -> list[Derived]:
    """The predicted step of every device, drawn where the recorded one begins."""
    return [_ghost(trace, step, prediction.outcome) for step in prediction.steps]


def _ghost(trace: Trace, step: Simulation, outcome: Outcome) -> Derived:
    after = step.after
    families = {
        name: classify(trace.strings[name]).family.label
        for name in distinct_values(trace.events.name[after.event]).tolist()
    }
    labels = sorted(set(families.values()))
    color_of_name = np.zeros(len(trace.strings), np.int64)
    for name, label in families.items():
        color_of_name[name] = labels.index(label)
    lanes, place = np.unique(after.lane, return_inverse=True)
    work = np.bincount(place, after.end - after.start, minlength=len(lanes))
    shown = lanes[np.argsort(-work, kind="stable")[:MAX_STREAMS]].tolist()
    members = [np.flatnonzero(after.lane == lane) for lane in shown]
    rows = tuple(
        derived_row(
            step.at + after.start[mine],
            step.at + after.end[mine],
            color_of_name[trace.events.name[after.event[mine]]],
        )
        for mine in members
    )

    def told(row: int, offset: int) -> tuple[str, str]:
        entry = int(members[row][offset])
        event, taken = int(after.event[entry]), int(after.end[entry] - after.start[entry])
        return kernel_name(trace.name(event)), f"{duration(taken)}, predicted, not recorded"

    caption = f"{duration(outcome.before_ns)} → {duration(outcome.after_ns)} predicted"
    if abs(after.extent - after.length) > UNLIKE_OTHERS * after.length:
        caption += f" on average, {duration(after.extent)} in this step"
    height = max(STREAM_HEIGHT * len(rows) + 8, MIN_HEIGHT)
    return Derived(
        Track(f"{GHOST}{step.device}", "", "after the fixes", "predicted, not recorded", derived=True),
        step.device,
        rows,
        lambda theme: [theme.family(label) for label in labels],
        told,
        Frame(step.at, step.at + after.extent, step.at + step.recorded.extent, caption),
        height,
    )


def bar(plan: Plan, prediction: Prediction, *, after: bool) -> list[tuple[str, str, int]]:
    """(key of the colour, label, ns) of the parts of a step without a recorder, before or after the fixes.

    Before, they are those of the budget of the device that works most. After, each is longer or shorter by what the
    replay makes of it, and what is left of the predicted step is idle time.
    """
    if not prediction.steps:
        return []
    step, analysis = prediction.steps[0], plan.replay.analysis
    replayed = {key: (label, ns) for key, label, ns in _replayed(step.after if after else step.before)}
    time = step_times(analysis).get(step.device)
    if time is None:
        return [(key, *told) for key, told in replayed.items()]
    told = budget_parts(analysis.budgets(step.device), analysis.idle)
    now = [(key, label, time.parts.get(key, 0.0)) for key, label, _ in told]
    if not after:
        return [(key, label, round(ns)) for key, label, ns in now if round(ns)]
    before = {key: ns for key, _, ns in _replayed(step.before)}
    then = {}
    for key, label, ns in now:
        counted = Part.COPY.value if key == "other" else key  # which the replay counts as copies
        old, new = before.get(counted, 0), replayed.get(counted, ("", 0))[1]
        then[key] = label, ns * new / old if old else ns
    new_causes = {
        key: (label, float(ns))
        for key, (label, ns) in replayed.items()
        if key not in then and not before.get(key)
    }
    return _fitted(then | new_causes, prediction.outcome.after_ns)


def _fitted(parts: dict[str, tuple[str, float]], whole: float) -> list[tuple[str, str, int]]:
    """The same parts as long as ``whole`` together, ns: work stays as long as it is, where it fits."""
    working = {key: ns for key, (_, ns) in parts.items() if key in _WORKING}
    idle = sum(ns for key, (_, ns) in parts.items() if key not in _WORKING)
    work = sum(working.values())
    left = whole - work
    scales = (1.0, left / idle) if idle > 0 and left > 0 else (whole / max(work, 1.0), 0.0)
    fitted = [(key, label, round(ns * scales[key not in _WORKING])) for key, (label, ns) in parts.items()]
    return [each for each in fitted if each[2] > 0]


def _replayed(timeline: StepTimeline) -> list[tuple[str, str, int]]:
    working = [
        (part.value, PART_LABELS[part], timeline.parts[part]) for part in Part if part is not Part.IDLE
    ]
    causes = sorted(timeline.idle.items(), key=lambda each: -each[1])
    return [each for each in working if each[2]] + [(cause.key, cause.label, ns) for cause, ns in causes]


def path_track(analysis: Analysis, path: CriticalPath) -> Derived:
    """The chain of work and waits that decided how long the replayed steps took."""

    def told(_: int, offset: int) -> tuple[str, str]:
        taken = duration(int(path.end[offset] - path.start[offset]))
        return "Critical path", f"{taken} {what(analysis, path, offset)}"

    return Derived(
        Track(PATH, "", "Critical path", "what decided the time", derived=True),
        ABOVE_ALL,
        (derived_row(path.start, path.end, path.kind),),
        path_colors,
        told,
        None,
        PATH_HEIGHT,
    )


def path_colors(theme: Theme) -> list[QColor]:
    """A colour for each ``PathKind``."""
    return [
        theme.family("gemm"),
        theme.cause(Cause.LAUNCH),
        theme.cause(Cause.HOST),
        theme.family("communication"),
        theme.family("copies"),
        theme.cause(Cause.SYNCHRONIZATION),
    ]


def what(analysis: Analysis, path: CriticalPath, piece: int) -> str:
    """What a piece is: its kind and the call or operation it belongs to."""
    trace = analysis.trace
    event, kind = int(path.event[piece]), PathKind(int(path.kind[piece]))
    if event < 0:
        return PATH_NAMES[kind]
    name = trace.name(event)
    on_gpu = int(trace.events.kind[event]) in (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
    style = style_of(trace.lanes[int(trace.events.lane[event])].kind)
    if kind is PathKind.HOST and (
        place := _place(analysis, event, int(path.start[piece] + path.end[piece]) // 2)
    ):
        return f"{PATH_NAMES[kind]}, in {place}"
    beside = ""
    if kind is PathKind.HOST:
        beside = "after " if path.start[piece] >= trace.events.end[event] else "before "
    return f"{PATH_NAMES[kind]}: {beside}{style.shown(name) if on_gpu else plain_name(name)}"


def _place(analysis: Analysis, event: int, when: int) -> str:
    """The innermost region that a thread was in, else operator, else sort of engine step; empty where there was none.

    Steps and requests are no places: each has a name of its own.
    """
    trace, moment = analysis.trace, np.array([when])
    for activity, _ in analysis.threads.by_thread(np.array([event])):
        for inside in (activity.regions, activity.operators):
            if (found := int(inside.at(moment)[0])) >= 0:
                return plain_name(trace.name(found))
        if (found := int(activity.engine_steps.at(moment)[0])) >= 0:
            return f"{engine_step(trace.name(found))}s"
    return ""


@dataclass(frozen=True, slots=True)
class PathRow:
    """All pieces that are called the same: ns in one step, how many of them, and the longest one."""

    name: str
    ns: float
    pieces: int
    longest: int


def path_groups(analysis: Analysis, path: CriticalPath) -> tuple[I64, list[str]]:
    """What each piece of the path is, as an index into the names; work on the CPU by the place it is in."""
    trace = analysis.trace
    name = np.where(path.event >= 0, trace.events.name[np.maximum(path.event, 0)], -1).astype(np.int64)
    key = path.kind.astype(np.int64) * (len(trace.strings) + 1) + name + 1
    alone = np.flatnonzero(path.kind == PathKind.HOST)
    alone = alone[np.argsort(path.start[alone] - path.end[alone], kind="stable")][:MAX_NAMED]
    places: dict[str, int] = {}
    for piece in alone.tolist():
        key[piece] = -1 - places.setdefault(what(analysis, path, piece), len(places))
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    names: dict[str, int] = {}
    number = [names.setdefault(what(analysis, path, piece), len(names)) for piece in first.tolist()]
    return np.array(number, np.int64)[group], list(names)


def path_rows(analysis: Analysis, path: CriticalPath) -> list[PathRow]:
    """What the path is made of, the largest part first."""
    group, names = path_groups(analysis, path)
    taken = path.end - path.start
    total, counts = np.bincount(group, taken, len(names)), np.bincount(group, minlength=len(names))
    by_length = np.argsort(taken, kind="stable")
    longest = np.zeros(len(names), np.int64)
    longest[group[by_length]] = by_length
    found = [
        PathRow(name, ns / max(path.steps, 1), pieces, piece)
        for name, ns, pieces, piece in zip(
            names, total.tolist(), counts.tolist(), longest.tolist(), strict=True
        )
    ]
    return sorted(found, key=lambda row: -row.ns)
