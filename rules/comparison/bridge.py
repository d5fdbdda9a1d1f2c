"""From the step before to the step after in parts that add up: of the budget, by kind of kernel, region, function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.source_files import frame_parts
from rules.analysis.arithmetic.intervals import length
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.analysis.cpu.sampled_stacks import OwnTime, own_time
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import classify
from rules.comparison.calls import Calls
from rules.comparison.side import Side
from rules.terms import MAJORITY
from rules.wording.words import short_place

MIN_SHOWN = 0.001  # of the longer step: smaller changes are put together
# of the GPU's time in ranges, on both sides: below it, ranges do not tell where time went
SMALLER = "smaller changes"
ELSEWHERE = "outside of ranges"
BUDGET, KINDS, REGIONS, FUNCTIONS = "parts of the budget", "kinds of kernel", "regions", "functions"


@dataclass(frozen=True, slots=True)
class BridgePart:
    """One part, ns a step; ``key`` says which colour it has: a part of the budget, a kernel family or a region."""

    key: str
    label: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Bridge:
    """``before`` + the changes of ``parts`` + ``unexplained`` == ``after``, ns a step; the largest change first."""

    title: str
    before: float
    after: float
    parts: tuple[BridgePart, ...]

    @property
    def unexplained(self) -> float:
        return self.after - self.before - sum(part.change for part in self.parts)


def bridges(
    first: Side, second: Side, steps: tuple[float, float], calls: tuple[Calls, Calls], regions: list[str]
) -> tuple[Bridge, ...]:
    """All that can be told; ``steps`` are mean steps (or windows), ns; ``regions`` the texts of the calls' codes."""
    sampled = [own_time(side.trace) for side in (first, second)]
    if all(each.sampled_ns for each in sampled) and not any(side.gpus for side in (first, second)):
        return (
            _bridge(
                FUNCTIONS,
                (sampled[0].sampled_ns, sampled[1].sampled_ns),
                [_sampled(each) for each in sampled],
            ),
        )
    alone = [cpu_time(side.analysis) for side in (first, second)]
    if alone[0] is not None and alone[1] is not None:
        times = [each for each in alone if each]
        if all(not each.computes and len(each.activity.functions.edges) for each in times):
            return (_bridge(FUNCTIONS, steps, [_functions(each) for each in times]),)
        return tuple(_bridge(title, steps, [of(each) for each in times]) for title, of in _OF_CPUS)
    found = [
        _bridge(BUDGET, steps, [_budget(side) for side in (first, second)]),
        _bridge(KINDS, steps, [_kinds(side) for side in (first, second)]),
    ]
    by_region = [_by_region(side, each, regions) for side, each in zip((first, second), calls, strict=True)]
    if all(
        sum(share for name, share in each.items() if name != (ELSEWHERE, ELSEWHERE)) >= MAJORITY
        for each in by_region
    ):
        found.append(_bridge(REGIONS, steps, by_region))
    return tuple(found)


Shares = Mapping[tuple[str, str], float]  # (key, label) -> part of the step


def _bridge(title: str, steps: tuple[float, float], shares: list[Shares]) -> Bridge:
    labels = dict.fromkeys([*shares[0], *shares[1]])
    parts = [
        BridgePart(
            key,
            label,
            shares[0].get((key, label), 0.0) * steps[0],
            shares[1].get((key, label), 0.0) * steps[1],
        )
        for key, label in labels
    ]
    large = [part for part in parts if abs(part.change) >= MIN_SHOWN * max(steps)]
    small = [part for part in parts if part not in large]
    if any(part.change for part in small):
        sums = sum(part.before for part in small), sum(part.after for part in small)
        large.append(BridgePart("other", SMALLER, *sums))
    return Bridge(title, *steps, tuple(sorted(large, key=lambda part: (-abs(part.change), part.label))))


def _budget(side: Side) -> Shares:
    parts = [
        ("compute", "compute"),
        ("communication", "exposed communication"),
        ("copy", "exposed copies"),
        ("other", "memset"),
    ]
    found = {(key, label): side.share(key) for key, label in parts}
    return found | {(cause.key, side.analysis.idle.label(cause)): side.share(cause.name) for cause in Cause}


def _kinds(side: Side) -> Shares:
    """Kernel time by family, the time without any operation, and what ran beside something else, counted off."""
    events, t = side.trace.events, side.analysis.window
    whole = max(side.window_ns * len(side.analysis.active_devices), 1)
    found_on = [side.trace.operations_of_device(each) for each in side.analysis.active_devices]
    operations = np.concatenate([np.empty(0, np.int64), *found_on])
    ns = np.maximum(np.minimum(events.end[operations], t[1]) - np.maximum(events.start[operations], t[0]), 0)
    by_name = np.bincount(events.name[operations], ns, len(side.trace.strings)) / whole
    found: dict[tuple[str, str], float] = {}
    for name in np.flatnonzero(by_name).tolist():
        label = classify(side.trace.strings[name]).family.label
        found[label, label] = found.get((label, label), 0.0) + float(by_name[name])
    busy = side.share("busy")
    found["dependency", "nothing runs"] = sum(side.share(cause.name) for cause in Cause)
    found["other", "overlap, counted once"] = busy - sum(
        share for key, share in found.items() if key[0] != "dependency"
    )
    return found


def _by_region(side: Side, calls: Calls, texts: list[str]) -> Shares:
    """Each moment of one step on its busiest GPU belongs to the operation that runs, else to the next one."""
    trace = side.trace
    device = trace.lane_device[trace.events.lane[calls.event]]
    if not len(device):
        return {}
    mine = device == np.bincount(device, calls.ns).argmax()
    event, region = calls.event[mine], calls.region[mine]
    order = np.argsort(trace.events.start[event], kind="stable")
    event, region = event[order], region[order]
    step = side.typical
    begin = int(trace.events.start[event[0]]) if step is None else step.start
    reached = np.maximum.accumulate(np.maximum(trace.events.end[event], begin))
    length = max(int(reached[-1]) if step is None else step.end, begin + 1) - begin
    spent = np.diff(np.concatenate(([begin], reached))) / length
    found: dict[tuple[str, str], float] = {}
    for code in distinct_values(region).tolist():
        label = texts[code] if code >= 0 else ELSEWHERE
        found[label, label] = float(spent[region == code].sum())
    return found


def _cpu_parts(time: CpuTime) -> Shares:
    """What the busiest thread does where no GPU was recorded."""
    whole = max(time.window_ns, 1)
    return {
        ("compute", "operators"): time.computes,
        (Cause.INPUT.key, "loading data"): length(time.loading) / whole,
        ("communication", "waiting in collectives"): length(time.communicating) / whole,
        (Cause.HOST.key, "outside operators"): length(time.outside) / whole,
        (Cause.LAUNCH.key, "calling operators"): length(time.calling) / whole,
    }


def _cpu_regions(time: CpuTime) -> Shares:
    """Each moment belongs to the innermost range of the program."""
    found: dict[tuple[str, str], float] = {}
    for event, ns in time.shares(time.activity.user_regions):
        name = time.trace.name(event)
        found[name, name] = ns / max(time.window_ns, 1)
    found[ELSEWHERE, ELSEWHERE] = 1.0 - sum(found.values())
    return found


def _functions(time: CpuTime) -> Shares:
    """Each moment belongs to the innermost function, whatever its line."""
    spent = ((time.trace.name(event), ns) for event, ns in time.shares(time.activity.functions))
    found = _by_function((frame_parts(name)[:2], ns / max(time.window_ns, 1)) for name, ns in spent)
    return {**found, ("other", "in no function"): 1.0 - sum(found.values())}


def _sampled(time: OwnTime) -> Shares:
    """What all threads were seen in: the deepest function of the program's own, else the innermost one."""
    return _by_function(
        ((each.function, each.file), each.ns / time.sampled_ns) for each in (*time.frames, *time.foreign)
    )


def _by_function(shares: Iterable[tuple[tuple[str, str], float]]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for (function, file), share in shares:
        label = f"{function} ({short_place(file)})" if file else function
        found["other", label] = found.get(("other", label), 0.0) + share
    return found


_OF_CPUS: tuple[tuple[str, Callable[[CpuTime], Shares]], ...] = (
    (BUDGET, _cpu_parts),
    (REGIONS, _cpu_regions),
)
