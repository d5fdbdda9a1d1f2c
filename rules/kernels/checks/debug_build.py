"""Whether a kernel was compiled without optimisation, which makes everything else that is said of it idle."""

from __future__ import annotations

from parsers.model import KernelProfile
from rules.kernels.checks.memory import local_share
from rules.kernels.checks.stalls import stalls

# An optimised instruction waits 1 to 6 cycles for one that takes a fixed time; without optimisation each waits the most
# that its encoding can state, 15, and every variable lies in local memory.
UNOPTIMISED_CYCLES = 8.0
MIN_LOCAL_SHARE = 0.10


def compiled_for_debugging(kernel: KernelProfile) -> bool:
    """Whether it waits behind each instruction, for nothing else as long, and keeps its variables in memory."""
    longest = next(iter(stalls(kernel)), None)
    waits = longest is not None and longest.reason == "wait" and longest.cycles >= UNOPTIMISED_CYCLES
    return waits and local_share(kernel) >= MIN_LOCAL_SHARE
