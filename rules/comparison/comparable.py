"""Whether two recordings can be compared at all, whether they are the same one, and why to be careful."""

from __future__ import annotations

import numpy as np

from parsers.model import Trace, TraceError
from parsers.model.units import how_many, percent, three_digits
from rules.comparison.kernel_rows import Work
from rules.comparison.kernels import compare_reports
from rules.comparison.side import Side

Works = dict[str, Work]

MIN_COMMON_SHARE = 0.1  # of the kernel time; below it the kernels are others, as after a change of precision
MANY_TIMES_AS_MANY = 4  # kernels a step: more than a compiler joins
SAME_CALLS = 0.02  # launches of a kernel a step, as often on both sides
ANOTHER_SIZE = 1.5  # the same kernels so much slower: more than the clocks of one GPU model differ
MIN_COPIED_BYTES = 65_536  # to the GPU and back: less is neither input nor output
SAME_BYTES = 0.02  # so many more or fewer are the same data
OTHER_STEP = 0.25  # so many more or fewer in a step are another part of the work
FEW_STEPS = 3  # fewer hardly show how much steps differ


class Incomparable(TraceError):
    """Both recordings are sound, and nothing in one can be set against the other."""


def refuse_incomparable(before: Trace, after: Trace) -> None:
    """Raise Incomparable, which says why, where nothing in one recording can be set against the other."""
    first, second = _holds(before), _holds(after)
    if first != second and not {first, second} <= {_GPU, _BOTH} and not {first, second} <= {_COUNTERS, _BOTH}:
        raise Incomparable(
            path_of(after),
            f"These two cannot be compared: the first holds {first}, the second {second}.",
            "Open them together instead: a kernel on the timeline then shows its counters."
            if {first, second} == {_GPU, _COUNTERS}
            else "Choose two recordings of the same kind, made before and after a change.",
        )
    if first == second and first in (_LOG, _TABLES, _NOTHING):
        raise Incomparable(
            path_of(after),
            f"These two cannot be compared: both hold {first}.",
            "Record the program with a profiler, before and after the change.",
        )
    if _COUNTERS in (first, second) and not compare_reports(before.kernels, after.kernels)[0]:
        raise Incomparable(
            path_of(after),
            "These two reports have no kernel in common, so there is nothing to compare.",
            "Profile the same kernels before and after the change (ncu --kernel-name).",
        )


_GPU = "a timeline with GPU work"
_CPU = "a timeline without GPU work"
_COUNTERS = "kernel counters without a timeline"
_BOTH = "a timeline with GPU work and kernel counters"
_MEMORY = "the memory of a GPU without a timeline"
_LOG = "the log of a device"
_TABLES = "tables without a timeline, such as a log of requests"
_NOTHING = "no events"


def _holds(trace: Trace) -> str:
    if len(trace.gpu_operations):
        return _BOTH if trace.kernels else _GPU
    if trace.kernels:
        return _COUNTERS
    if len(trace.events):
        return _CPU
    if holds_memory_alone(trace):
        return _MEMORY
    if trace.counters:
        return _LOG
    return _TABLES if trace.tables else _NOTHING


def holds_memory_alone(trace: Trace) -> bool:
    """Whether a recording is a memory snapshot without the timeline of its run."""
    return bool(trace.memory) and not len(trace.events)


def path_of(trace: Trace) -> str:
    """The first file of a recording."""
    return trace.inputs[0].path if trace.inputs else "the recording"


def are_the_same(before: Trace, after: Trace) -> bool:
    """Whether both are one recording: every event at the same time, every profiled kernel with the same counters."""
    if before is after:
        return True
    one, other = before.events, after.events
    if holds_memory_alone(before) and holds_memory_alone(after):
        held = [[each.columns() for each in trace.memory] for trace in (before, after)]
        return len(held[0]) == len(held[1]) and all(
            np.array_equal(column, right[name])
            for left, right in zip(*held, strict=True)
            for name, column in left.items()
        )
    return (
        bool(len(one) or before.kernels)
        and len(one) == len(other)
        and len(before.kernels) == len(after.kernels)
        and np.array_equal(one.start, other.start)
        and np.array_equal(one.end, other.end)
        and np.array_equal(one.name, other.name)
        and before.strings == after.strings
        and all(
            left.name == right.name and left.duration_ns == right.duration_ns
            for left, right in zip(before.kernels, after.kernels, strict=True)
        )
    )


def cautions_of_reports(before: Trace, after: Trace) -> list[str]:
    """Why the times of two kernel reports may not be comparable."""
    cautions = ["times under the profiler, which serialises kernels: compare them only with each other"]
    names = [{each.device_name for each in trace.kernels if each.device_name} for trace in (before, after)]
    return cautions + _different_gpus(names[0], names[1])


def _different_gpus(before: set[str], after: set[str]) -> list[str]:
    return (
        [f"different GPUs: {_listed(before)} and {_listed(after)}"]
        if before and after and before != after
        else []
    )


def not_the_same_work(first: Side, second: Side, works: tuple[Works, Works]) -> list[str]:
    """Why the step times of two timelines say nothing about a change; ``works``: kernels by comparable name."""
    found = []
    if bool(first.gpus) != bool(second.gpus):
        found.append("no GPU work was recorded in one of them")
    if not (first.found_by and second.found_by):
        found.append(f"no steps were found in {_without_steps(first, second)}")
    elif first.whole:
        found.append(_OTHER_STEPS)
    elif first.found_by != second.found_by and "repetition" in (first.found_by, second.found_by):
        found.append("steps were found in different ways, by their annotation and by what repeats")
    names = _gpu_names(first), _gpu_names(second)
    found += _different_gpus(*names)
    if first.gpus != second.gpus:
        found.append(f"{how_many(first.gpus, 'GPU')} before and {second.gpus} after")
    if look_like_different_programs(*works):
        found.append("they share almost no kernels, and one launches many times more than the other")
    elif (
        first.gpus == second.gpus and names[0] == names[1] and another_size(first, second, works) is not None
    ):
        found.append(
            "kernels launched equally often take much longer or much less time each, as with another batch size"
        )
    return found


def _gpu_names(side: Side) -> set[str]:
    return {name for device in side.analysis.active_devices if (name := side.trace.devices[device].name)}


def _without_steps(first: Side, second: Side) -> str:
    return "one of them" if first.found_by or second.found_by else "either"


def cautions(first: Side, second: Side, works: tuple[Works, Works]) -> list[str]:
    """Why two timelines may not be comparable; ``works`` are their kernels by comparable name."""
    found = []
    in_common = _in_common(*works)
    names = _gpu_names(first), _gpu_names(second)
    found += _different_gpus(*names)
    if first.gpus != second.gpus:
        found.append(
            f"{how_many(first.gpus, 'GPU')} before and {second.gpus} after: communication differs, and perhaps the "
            "batch per GPU"
        )
    if first.gpus and second.gpus and in_common < MIN_COMMON_SHARE:
        found.append(
            f"only {percent(in_common)} of the kernel time is in kernels of the same name: another precision, a "
            "compiler, or another program"
        )
    elif names[0] == names[1] and (times := another_size(first, second, works)) is not None:
        longer = times > 1
        found.append(
            f"kernels of the same name, launched equally often, take {three_digits(times if longer else 1 / times)} "
            f"times {'longer' if longer else 'less time'} each: probably another batch or model size"
        )
    found += _about_steps(first, second)
    formats = [{each.format for each in side.trace.inputs} for side in (first, second)]
    if formats[0] != formats[1]:
        found.append("recorded by different profilers, whose overhead differs")
    for what, slows in (
        ("stacks", [side.trace.capture.with_stack for side in (first, second)]),
        ("memory use", [side.trace.capture.profile_memory for side in (first, second)]),
    ):
        if slows[0] != slows[1]:
            found.append(
                f"only {'the first' if slows[0] else 'the second'} recorded {what}, which slows the CPU"
            )
    return found


def look_like_different_programs(before: Works, after: Works) -> bool:
    """Whether hardly a kernel is in both, and one launches many times more than the other.

    Another precision changes the names and keeps the number; a compiler lowers the number and keeps matrix products.
    """
    calls = [sum(calls for calls, _ in side.values()) for side in (before, after)]
    return (
        min(calls) > 0
        and _in_common(before, after) < MIN_COMMON_SHARE
        and max(calls) > MANY_TIMES_AS_MANY * min(calls)
    )


def _in_common(before: Works, after: Works) -> float:
    """The share of the kernel time that is in kernels of both, on the side where it is larger."""
    both = before.keys() & after.keys()
    return max(
        sum(side[name][1] for name in both) / max(sum(ns for _, ns in side.values()), 1.0)
        for side in (before, after)
    )


def hold_other_steps(first: Side, second: Side) -> bool:
    """Whether steps that were inferred from repetition hold different parts of what is the same work as a whole."""
    if not first.found_by == second.found_by == "repetition" or not copy_as_much(first, second):
        return False
    a_step = first.copied_bytes / first.repetitions, second.copied_bytes / second.repetitions
    return abs(a_step[0] - a_step[1]) > OTHER_STEP * max(a_step)


def another_size(first: Side, second: Side, works: tuple[Works, Works]) -> float | None:
    """By what factor equal kernels take longer, as with another batch; None where as much data comes and goes."""
    return None if copy_as_much(first, second, a_step=True) else times_as_long(*works)


def copy_as_much(first: Side, second: Side, a_step: bool = False) -> bool:
    """Whether as many bytes go to the GPU and back in the analysed time, or in a step: the same data."""
    before, after = (side.copied_bytes / (side.repetitions if a_step else 1) for side in (first, second))
    return max(before, after) >= MIN_COPIED_BYTES and abs(after - before) <= SAME_BYTES * max(before, after)


def times_as_long(before: Works, after: Works) -> float | None:
    """By what factor the kernels that both launch equally often became slower, where that is beyond another clock."""
    alike = [
        name
        for name in before.keys() & after.keys()
        if before[name][1] and after[name][1] and abs(after[name][0] / before[name][0] - 1) <= SAME_CALLS
    ]
    weights = np.array([max(before[name][1], after[name][1]) for name in alike])
    total = max(sum(ns for _, ns in side.values()) for side in (before, after))
    if weights.sum() < MIN_COMMON_SHARE * total or not total:
        return None
    factors = np.array([after[name][1] / before[name][1] for name in alike])
    order = np.argsort(factors)
    reached = np.cumsum(weights[order])
    median = float(factors[order][np.searchsorted(reached, reached[-1] / 2)])
    return median if not 1 / ANOTHER_SIZE < median < ANOTHER_SIZE else None


_OTHER_STEPS = "steps were inferred from repetition on the GPU and hold different parts of the work"


def _about_steps(first: Side, second: Side) -> list[str]:
    if not (first.found_by and second.found_by):
        return [f"no steps were found in {_without_steps(first, second)}: whole recordings are compared"]
    if first.whole:
        return [f"{_OTHER_STEPS}: whole recordings are compared"]
    if first.found_by != second.found_by:
        return [
            "steps were found in different ways, one by annotation and one by repetition: they may not contain the "
            "same work"
            if "repetition" in (first.found_by, second.found_by)
            else "steps are annotated in different ways: they may not contain the same work"
        ]
    if first.found_by == "repetition":
        return ["steps were inferred from repetition on the GPU, so a step may be only part of an iteration"]
    if min(first.repetitions, second.repetitions) < FEW_STEPS:
        return ["fewer than three steady steps in at least one of them"]
    return []


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
