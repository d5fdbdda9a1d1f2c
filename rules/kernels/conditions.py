"""Under which conditions a launch was measured, and what that means for its numbers."""

from __future__ import annotations

from parsers.model import KernelProfile
from parsers.model.units import duration

SHORT_NS = 5_000
LOW_CLOCK_SHARE = 0.75
_CLOCK = "gpc__cycles_elapsed.avg.per_second"
_HIGHEST_CLOCK = "device__attribute_max_gpu_frequency_khz"
_PASSES = "profiler__replayer_passes"


def conditions(kernel: KernelProfile) -> tuple[str, ...]:
    """Sentences on what to keep in mind about a launch's numbers; none when nothing is unusual."""
    notes = [short] if (short := caution(kernel)) else []
    clock, highest = kernel.number(_CLOCK), kernel.number(_HIGHEST_CLOCK)
    if clock and highest and clock < LOW_CLOCK_SHARE * highest * 1e3:
        notes.append(
            f"The SMs ran at {clock / 1e9:.2f} of at most {highest / 1e6:.2f} GHz: the profiler fixes the clock unless"
            " told otherwise (--clock-control none), and the memory then looks faster by comparison."
        )
    passes = kernel.number(_PASSES)
    if passes is not None and passes > 1:
        notes.append(
            f"The kernel ran {passes:.0f} times to collect all counters, each time from the same memory contents and"
            " with cold caches unless told otherwise (--cache-control none)."
        )
    if kernel.invocations > 1:
        notes.append(f"The numbers are averages of {kernel.invocations} launches.")
    return tuple(notes)


def caution(kernel: KernelProfile) -> str:
    """The note that can change a verdict: the launch is too short. Empty when it is not."""
    time = kernel.duration_ns
    if time is None or not 0 < time < SHORT_NS:
        return ""
    return f"The launch took {duration(time)}: starting up dominates, and percentages mean little."
