"""What the compute units do: which pipe is busiest, divergence, double precision, and unfused multiply and add."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.model import KernelProfile
from parsers.model.late import dataclass
from rules.findings.base import Category
from rules.kernels.checks.launch import WARP
from rules.kernels.checks.speed_of_light import COMPUTE, KernelRuleResult, check, first_number, numbers

IDLE_PIPES_PERCENT = 20.0
BUSY_PIPE_PERCENT = 60.0
SATURATED_PIPE_PERCENT = 80.0
DIVERGENT_THREADS = 24.0
FP64_SHARE, FP32_SHARE = 0.15, 0.60
UNFUSED_SHARE = 0.1
SLOW_PIPE_BUSY, SLOW_PIPE_AVERAGE, SLOW_PIPE_SPREAD = 80.0, 20.0, 25.0

PIPES = {
    "alu": "ALU (integers, logic, comparisons)",
    "fma": "FMA (32-bit floating point, integer multiply)",
    "fp64": "FP64 (64-bit floating point)",
    "shared": "the pipe that FP64 and tensor instructions share",
    "tensor": "the tensor cores",
    "tma": "TMA (bulk copies)",
}
EXECUTED_PIPES = ("alu", "fma", "fp64", "tensor")
INSTRUCTION_PIPES = {
    "xu": "XU (sine, exponential, reciprocal, square root, conversions)",
    "lsu": "LSU (loads and stores)",
    "adu": "ADU (addresses, branches)",
    "uniform": "uniform datapath",
    "cbu": "CBU (branches, barriers)",
    "tex": "TEX (textures)",
    "fp16": "FP16",
}
_ELAPSED, _ACTIVE = "avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active"
_INSTRUCTIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_PEAK = "sm__sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"
_OPCODES = "sass__inst_executed_per_opcode"


@dataclass(frozen=True, slots=True)
class Pipe:
    """One pipe and how busy it is, in percent of its peak over the kernel's time."""

    name: str
    shown: str
    percent: float


def pipe_percent(kernel: KernelProfile, pipe: str) -> float | None:
    """How busy one pipe was; of active cycles in reports that have no elapsed ones."""
    stem = f"sm__pipe_{pipe}_cycles_active"
    return first_number(kernel, f"{stem}.{_ELAPSED}", f"{stem}.{_ACTIVE}")


def pipes(kernel: KernelProfile) -> list[Pipe]:
    """The pipes whose busy cycles were measured, busiest first."""
    found = [
        Pipe(name, shown, value)
        for name, shown in PIPES.items()
        if (value := pipe_percent(kernel, name)) is not None
    ]
    if not found:
        found = [
            Pipe(name, PIPES[name], value)
            for name in EXECUTED_PIPES
            if (value := executed_percent(kernel, name)) is not None
        ]
    return sorted(found, key=lambda each: -each.percent)


def executed_percent(kernel: KernelProfile, pipe: str) -> float | None:
    """How busy one pipe was by the instructions it executed, all that older reports state."""
    stem = f"sm__inst_executed_pipe_{pipe}"
    return first_number(kernel, f"{stem}.{_ELAPSED}", f"{stem}.{_ACTIVE}")


def instruction_pipes(kernel: KernelProfile) -> list[Pipe]:
    """The pipes that are known by their executed instructions only, busiest first."""
    found = []
    for name, shown in INSTRUCTION_PIPES.items():
        if (value := executed_percent(kernel, name)) is not None:
            found.append(Pipe(name, shown, value))
    return sorted(found, key=lambda each: -each.percent)


@check
def pipe_utilisation(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether one pipe is the bottleneck, or all of them idle."""
    measured = pipes(kernel)
    if not measured:
        return
    busiest = measured[0]
    percent: float | None = None
    category: Category | None = None
    busy = f"The busiest pipe is {busiest.shown}, {busiest.percent:.0f} % of its peak"
    if busiest.percent < IDLE_PIPES_PERCENT:
        percent = 100.0 - busiest.percent
        text = f"All compute pipes are nearly idle: {busy[0].lower()}{busy[1:]}."
        category = Category.LATENCY_BOUND
    elif busiest.percent < BUSY_PIPE_PERCENT:
        text = f"{busy}: well used and no bottleneck."
    else:
        limit = (
            "it is the bottleneck"
            if busiest.percent >= SATURATED_PIPE_PERCENT
            else "it soon is the bottleneck"
        )
        text = f"{busy}: {limit}."
        category = Category.PIPE_SATURATED
    fired = not IDLE_PIPES_PERCENT <= busiest.percent < BUSY_PIPE_PERCENT
    yield KernelRuleResult(
        "HighPipeUtilization", "ComputeWorkloadAnalysis", fired, text, category, percent, False, busiest.name
    )


@check
def slow_pipe(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether a pipe that issues slowly holds up the rest."""
    measured = numbers(
        kernel,
        "sm__instruction_throughput.avg.pct_of_peak_sustained_active",
        "sm__inst_issued.avg.pct_of_peak_sustained_active",
        "sm__inst_issued.max.pct_of_peak_sustained_active",
        COMPUTE,
    )
    if measured is None:
        return
    busy, average, most, compute = measured
    fired = busy >= SLOW_PIPE_BUSY and average < SLOW_PIPE_AVERAGE and most - average > SLOW_PIPE_SPREAD
    percent = (most - average) / most * compute if fired else None
    text = "Slow instructions hold the SMs up." if fired else "No slow pipe holds the SMs up."
    yield KernelRuleResult(
        "SlowPipeLimiter", "ComputeWorkloadAnalysis", fired, text, Category.PIPE_SATURATED, percent
    )


@check
def thread_divergence(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether warps run with many of their 32 threads switched off."""
    measured = numbers(
        kernel,
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    )
    if measured is None:
        return
    active, executing = measured
    least = min(measured)
    fired = 0 < least < DIVERGENT_THREADS
    compute = kernel.number(COMPUTE)
    percent = (1 - least / WARP) * compute if fired and compute is not None else None
    text = (
        f"Of 32 threads of a warp {active:.1f} follow the same path and {executing:.1f} really execute,"
        " on average over all instructions."
    )
    yield KernelRuleResult("ThreadDivergence", "WarpStateStats", fired, text, Category.DIVERGENCE, percent)


@dataclass(frozen=True, slots=True)
class FloatingPoint:
    """Additions, multiplications and fused operations per cycle, and the peak of fused ones per cycle."""

    add: float
    multiply: float
    fused: float
    peak: float | None

    @property
    def operations(self) -> float:
        return self.add + self.multiply + 2 * self.fused

    @property
    def share_of_peak(self) -> float | None:
        return self.operations / (2 * self.peak) if self.peak else None


def floating_point(kernel: KernelProfile, letter: str) -> FloatingPoint | None:
    """What FP32 ("f"), FP64 ("d") or FP16 ("h") instructions did; None when it was not measured."""
    measured = numbers(kernel, *(_INSTRUCTIONS.format(letter + op) for op in ("add", "mul", "fma")))
    if measured is None:
        return None
    add, multiply, fused = measured
    return FloatingPoint(add, multiply, fused, kernel.number(_PEAK.format(letter)))


@check
def double_precision(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether 64-bit arithmetic takes the time that 32-bit arithmetic could save."""
    single, double = floating_point(kernel, "f"), floating_point(kernel, "d")
    if single is None or double is None or not single.peak or not double.peak:
        return
    share32, share64 = single.share_of_peak or 0.0, double.share_of_peak or 0.0
    fired = share32 < FP32_SHARE and share64 > FP64_SHARE
    percent: float | None = None
    pipe = pipe_percent(kernel, "fp64")
    if fired:
        wanted = double.operations / (max(single.operations, 0.0) + double.operations)
        saved = max(0.0, 1 - double.peak / single.peak)
        percent = wanted * saved * (100.0 if pipe is None else pipe)
    text = (
        f"The kernel reaches {100 * share32:.0f} % of the FP32 peak and {100 * share64:.0f} % of the FP64 peak,"
        f" which is {single.peak / double.peak:.0f} times lower on this GPU."
    )
    yield KernelRuleResult(
        "SOLFPRoofline", "SpeedOfLight_RooflineChart", fired, text, Category.FP64, percent, pipe is not None
    )


def fused_and_unfused(kernel: KernelProfile, letter: str) -> tuple[float, float] | None:
    """Fused and unfused instructions: per opcode where the report has them, else threads per cycle."""
    opcodes = dict(kernel.instances.get(_OPCODES, ()))
    if opcodes:
        prefix = letter.upper()
        fused = float(opcodes.get(f"{prefix}FMA", 0.0))
        return fused, sum(float(opcodes.get(f"{prefix}{op}", 0.0)) for op in ("ADD", "MUL"))
    executed = floating_point(kernel, letter)
    return None if executed is None else (executed.fused, executed.add + executed.multiply)


@check
def unfused_arithmetic(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether pairs of multiply and add could be one fused instruction."""
    looked = fired = False
    for letter, bits, pipe in (("f", 32, "fma"), ("d", 64, "fp64")):
        executed = fused_and_unfused(kernel, letter)
        busy = pipe_percent(kernel, pipe)
        if executed is None or busy is None:
            continue
        looked = True
        fused, unfused = executed
        total = fused + unfused
        share = 0.5 * unfused / total if total > 0 else 0.0
        if share > UNFUSED_SHARE:
            fired = True
            text = (
                f"{100 * unfused / total:.0f} % of the FP{bits} instructions are single additions or"
                " multiplications: pairs of them could run as one fused multiply-add."
            )
            yield KernelRuleResult(
                "FPInstructions", "InstructionStats", True, text, None, share * busy, subject=f"FP{bits}"
            )
    if looked and not fired:
        text = "Nearly all floating-point arithmetic is fused, or there is none."
        yield KernelRuleResult("FPInstructions", "InstructionStats", False, text)
