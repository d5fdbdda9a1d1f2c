"""Sentences that several findings share: shares of a step, counts, lists, which GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parsers.model import EventKind, Trace
from parsers.model.units import duration, three_digits
from rules.analysis.analysis import Analysis
from rules.wording.headline import Part
from rules.wording.words import Words


def of_every_step(analysis: Analysis, share: float) -> Part:
    """ "57 % of every step", or "of the recorded time" where no steps were found."""
    return Part(share, analysis.steps_in_window)


def part_of_step(analysis: Analysis, ns: float) -> str:
    """ "26.5 of the 46.4 ms of a step": an amount of the window and the window, both for one step."""
    return part_of_steps(ns, analysis.window_ns, analysis.steps_in_window)


def part_of_steps(ns: float, window_ns: float, steps: int, step: str = "a step") -> str:
    """The same of a window of so many steps; 0 where none were found."""
    return f"{part_of(ns / steps, window_ns / steps)} of {step}" if steps else part_of(ns, window_ns, "of")


def part_of(part_ns: float, whole_ns: float, of: str = "of the") -> str:
    """ "26.5 of the 46.4 ms": the unit stands once where both have the same."""
    part, whole = duration(part_ns), duration(whole_ns)
    unit = f" {whole.rpartition(' ')[2]}"
    return f"{part.removesuffix(unit)} {of} {whole}"


def counted(analysis: Analysis, count: float, singular: str, plural: str = "", *, verb: str = "") -> str:
    """ "147 kernels a step": a count of the whole window, for one step; "1 kernel in 3 steps" where it is rare.

    With a ``verb``, "147 kernels a step run" and "1 kernel a step runs".
    """
    steps = analysis.steps_in_window
    each = count / max(steps, 1)
    rare = steps > 1 and 0 < each < 0.95
    number = (
        f"{count if rare else each:,.0f}"
        if rare or each >= 9.95 or each == round(each)
        else three_digits(each)
    )
    noun = singular if number == "1" else plural or f"{singular}s"
    told = f"{number} {noun}" + (f" in {steps} steps" if rare else " a step" if steps else "")
    return f"{told} {verb}{'s' if number == '1' else ''}" if verb else told


def share(analysis: Analysis, ns: float) -> float:
    """A fraction of the analysed window."""
    return ns / analysis.window_ns if analysis.window_ns > 0 else 0.0


def without_times(count: int) -> str:
    """Of GPU activities that the profiler recorded with neither a start nor a duration."""
    if count == 1:
        return "1 GPU activity was recorded without its time"
    return f"{count:,} GPU activities were recorded without their times"


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def number_of_cores(count: int) -> str:
    """ "one core" or "4 cores"."""
    return f"{count:,} cores" if count != 1 else "one core"


def in_a_step(analysis: Analysis, ns: float) -> str:
    """ "11.1 ms": an amount of the window, as recorded, for one step; all of it where no steps were found."""
    return duration(ns / max(analysis.steps_in_window, 1))


def a_step(ns: float, steps: int) -> str:
    """ "11.1 ms a step": an amount of so many steps; all of it, without a word, where none were found."""
    return f"{duration(ns / steps)} a step" if steps else duration(ns)


def amounts(analysis: Analysis, parts: Iterable[tuple[str, int]], most: int, least: float = 0.0005) -> str:
    """ "forward (11.1 ms), backward (1.44 ms)": the first parts of a step that are no rounding error.

    As recorded, like the sum that they are parts of; a share of a step is told of one without the recorder.
    """
    worth = [f"{name} ({in_a_step(analysis, ns)})" for name, ns in parts if share(analysis, ns) >= least]
    return listed(worth[:most])


def shortened(name: str, most: int = 60) -> str:
    """A name of at most this many characters."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def short_place(place: str) -> str:
    """ "train.py:21" of a path with its folders."""
    return place.replace("\\", "/").rpartition("/")[2]


def without_stacks(trace: Trace, words: Words) -> Words:
    """The words, or none where Python's stacks were recorded."""
    return "" if has_stacks(trace) else words


def has_stacks(trace: Trace) -> bool:
    """Whether Python's stacks were recorded: the recording says so, or says nothing and has frames."""
    stated = trace.capture.with_stack
    return EventKind.PYTHON in trace.kinds if stated is None else stated
