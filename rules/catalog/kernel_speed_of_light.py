"""What limits each profiled kernel: memory, compute, both, waiting, or a grid too small for the GPU."""

from __future__ import annotations

from parsers.model import KernelProfile
from parsers.model.units import percent
from rules.findings.base import Category, Remedy, Severity, rule
from rules.kernels.checks.compute import Pipe, instruction_pipes, pipes
from rules.kernels.checks.explanations import stall_reasons
from rules.kernels.checks.occupancy import Advice, advice_to_raise, has_room_for_few, occupancy_verdict
from rules.kernels.checks.speed_of_light import (
    COMPUTE,
    HIGH_PERCENT,
    L1_CACHE,
    VERDICTS,
    SpeedOfLight,
    blocks_of,
    memory_percent,
    multiprocessors,
    speed_of_light,
)
from rules.kernels.checks.stalls import compiled_for_debugging, stalls
from rules.losses.kernel_findings import Fault, KernelRule, Reads, other_faults
from rules.terms import MAJORITY

# of a kernel's time, at most: code for release has fewer instructions and waits less for each
UNOPTIMISED = 0.9
MOSTLY_IDLE = 0.75  # of the SMs: then no fault inside the blocks is what makes the kernel slow
_ADVICE: dict[Category, tuple[str, ...]] = {
    Category.MEMORY_BOUND: (
        "Move fewer bytes: fuse this kernel with its neighbours, or store values in 16 or 8 bits where that is precise "
        "enough.",
        "Reuse data while it is in registers, shared memory or L2 (tiling) instead of reading it again.",
    ),
    Category.COMPUTE_BOUND: (
        "If it multiplies matrices, let the tensor cores do so: bf16, fp16, tf32 or fp8 inputs, dimensions that are "
        "multiples of 8 or 16.",
        "Do cheaper arithmetic: fewer special functions, divisions and index computations per element.",
    ),
    Category.LATENCY_BOUND: (
        "Give every thread several independent loads or accumulators (unroll), so that waits overlap.",
        "See the stall reasons and the occupancy of this kernel: they say what it waits for.",
    ),
    Category.SMALL_GRID: (
        "Launch more blocks: at least two per SM; split the work finer, or along another dimension (split-K).",
        "Batch several small problems into one launch, or run independent kernels on several streams.",
    ),
    Category.BALANCED: (
        "Reduce both arithmetic and traffic: a better algorithm or fusion; tuning gives little here.",
    ),
}
_OF_THE_L1_CACHE = (
    "Ask the L1 cache for less: keep what is read again in registers, and read wider types (float4).",
    "Let neighbouring threads read neighbouring addresses: each access is taken apart into the cache lines it touches.",
)
_UNOPTIMISED = (
    "It waits for a long fixed time after each instruction and keeps its variables in local memory, as code does that "
    "was compiled for debugging."
)
_FOR_RELEASE = (
    "Compile it for release: nvcc without -G, CMAKE_BUILD_TYPE=Release, Numba without debug=True. For line numbers, "
    "-lineinfo is enough."
)


@rule
class KernelSpeedOfLight(KernelRule):
    id = "kernel-speed-of-light"
    category = Category.LATENCY_BOUND
    reads = Reads(
        r"^sm__throughput|^(gpu|dram|l1tex|lts)__\w*throughput\.avg\.pct_of_peak",
        "SpeedOfLight",
        "throughput",
    )
    is_verdict = True
    explanation = """
What it found
    What sets the pace of a kernel: the memory system, the arithmetic units, both, plain waiting, or a grid with
    fewer blocks than the GPU has SMs.

Why it costs time
    A kernel that reaches neither limit of the GPU wastes the time in which it waits. A kernel at a limit is as fast
    as the hardware allows for the work it was given: then only less work helps.

How it decides
    From the throughput of compute and memory in percent of the GPU's peak. Both below 60 %: it waits, or its grid is
    too small when more than a quarter of the SMs get no block, or when all blocks fit on the SMs at once and leave
    room, unless the report says what the warps wait for. Otherwise the larger one is the limit, or both are if they
    differ by less than 10 points. 80 % counts as reached: the ceiling is what running at 80 % would save. If another
    finding explains at least half of that, it carries the ceiling. The L1 cache is the limit where it reaches 80 % and
    at least 10 points more than both, which leave out how it takes accesses apart into cache lines.

    A kernel was compiled for debugging where warps wait for nothing as long as for the fixed delay of single
    instructions, 8 cycles or more, and at least a tenth of the memory accesses go to local memory. Its registers and
    its local memory are then no findings of their own.

What to try
    Memory: move fewer bytes. Compute: use tensor cores or cheaper arithmetic. Waiting: more parallelism per thread
    or more warps. Small grid: more blocks.

When it is wrong
    For kernels of a few microseconds, where starting up dominates, and for kernels that are meant to wait, such as
    communication.
"""

    def fault(self, kernel: KernelProfile) -> Fault | None:
        return _verdict(kernel)


def _verdict(kernel: KernelProfile) -> Fault | None:
    sol = speed_of_light(kernel)
    if sol is None:
        return _one_side(kernel)
    saving = max(0.0, 1 - sol.best / HIGH_PERCENT)
    at_the_limit = sol.best >= HIGH_PERCENT
    idle = _idle_part(kernel) if sol.bound is Category.SMALL_GRID else 0.0
    saving = max(saving, idle)
    unoptimised = compiled_for_debugging(kernel)
    if unoptimised:
        saving = max(saving, UNOPTIMISED)
    causes = [
        fault.title
        for fault in other_faults(kernel)
        if fault.saving >= MAJORITY * saving > 0 and idle < MOSTLY_IDLE
    ]
    return Fault(
        title="seems to be compiled for debugging" if unoptimised else sol.verdict,
        explanation=_explanation(kernel, sol) + (f" The reasons: {'; '.join(causes)}." if causes else ""),
        remedy=Remedy(_advice(kernel, sol)),
        saving=0.0 if causes else saving,
        category=sol.bound,
        confidence="high" if at_the_limit else "medium",
        severity=Severity.INFO if at_the_limit or causes else None,
        is_verdict=True,
    )


def _advice(kernel: KernelProfile, sol: SpeedOfLight) -> tuple[str, ...]:
    of_l1 = bool(sol.l1) or (sol.bound is Category.MEMORY_BOUND and sol.limiter == L1_CACHE)
    advice = _OF_THE_L1_CACHE if of_l1 else _ADVICE[sol.bound]
    if compiled_for_debugging(kernel):
        return (_FOR_RELEASE, *advice[1:])
    if _has_nothing_for_tensor_cores(kernel, sol):
        return advice[1:]
    return _against_waits(kernel, advice) if sol.bound is Category.LATENCY_BOUND else advice


def _against_waits(kernel: KernelProfile, usual: tuple[str, ...]) -> tuple[str, ...]:
    """What helps a kernel that mostly waits, by what it waits for and what keeps warps from it."""
    verdict = occupancy_verdict(kernel)
    if verdict.advice is Advice.LAUNCH_MORE_WORK:
        return (_ADVICE[Category.SMALL_GRID][0], usual[0])
    if verdict.advice is Advice.FIX_THE_STALL and verdict.stall.endswith(
        "_throttle"
    ):  # more at once fills it more
        return (stall_reasons()[verdict.stall].fix, *usual[1:])
    if not stalls(kernel):
        usual = usual[:1]  # the explanation says that they were not recorded
    if verdict.advice is Advice.UNKNOWN and has_room_for_few(kernel):
        return (*map(advice_to_raise, verdict.limiters), *usual)
    return usual


def _idle_part(kernel: KernelProfile) -> float:
    """The part of the SMs that get no block; 0 where the number of either is not known."""
    sms = multiprocessors(kernel)
    return max(0.0, 1 - blocks_of(kernel) / sms) if sms and blocks_of(kernel) else 0.0


def _busiest(kernel: KernelProfile) -> Pipe | None:
    return max([*pipes(kernel), *instruction_pipes(kernel)], key=lambda pipe: pipe.percent, default=None)


def _has_nothing_for_tensor_cores(kernel: KernelProfile, sol: SpeedOfLight) -> bool:
    """Whether what keeps the kernel busy is no multiplication, such as integers or special functions."""
    busiest = _busiest(kernel)
    return sol.bound is Category.COMPUTE_BOUND and busiest is not None and "FMA" not in busiest.shown.upper()


def _one_side(kernel: KernelProfile) -> Fault | None:
    """What one throughput says alone: at the hardware's limit it is the limit, whatever the other one is."""
    compute, memory = kernel.number(COMPUTE), memory_percent(kernel)
    known, bound, name, other = (
        (compute, Category.COMPUTE_BOUND, "compute", "memory")
        if memory is None
        else (memory, Category.MEMORY_BOUND, "memory", "compute")
    )
    if known is None or known < HIGH_PERCENT:
        return None
    return Fault(
        title=f"{VERDICTS[bound]} ({percent(known / 100)} {name}, {other} not measured)",
        explanation=(
            f"It uses {percent(known / 100)} of the GPU's {name} throughput, which is close to what this GPU can do."
        ),
        remedy=Remedy(_ADVICE[bound]),
        saving=0.0,
        category=bound,
        severity=Severity.INFO,
        cannot_tell=f"How busy {other} is at the same time: record --section SpeedOfLight, or --set full.",
        confidence="high",
        is_verdict=True,
    )


def _explanation(kernel: KernelProfile, sol: SpeedOfLight) -> str:
    compute, memory = percent(sol.compute / 100), percent(sol.memory / 100)
    text = f"It uses {compute} of the GPU's compute and {memory} of its memory throughput. "
    if sol.bound is Category.COMPUTE_BOUND:
        busiest = _busiest(kernel)
        text += (
            f"The busiest pipe is {busiest.shown}, {busiest.percent:.0f} % of its peak. " if busiest else ""
        )
    elif sol.bound is Category.MEMORY_BOUND:
        at = f", at {percent(sol.l1 / 100)} of its peak" if sol.l1 else ""
        text += f"The busiest part is {sol.limiter}{at}. "
    if sol.best >= HIGH_PERCENT:
        return (
            text
            + "That is close to what this GPU can do: only less work, or less wasted work, makes it faster."
        )
    text += occupancy_verdict(kernel).text
    return f"{text} {_UNOPTIMISED}" if compiled_for_debugging(kernel) else text
