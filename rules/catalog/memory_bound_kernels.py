"""Kernels that only move memory and could be one, or that only convert layouts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, EventKind, KernelProfile, Trace
from parsers.model.arrays import among
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.kernels import base_name, kernel_name
from parsers.model.units import percent, rate
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, durations, intersect, length, pairs, union
from rules.analysis.gpu.inside_window import busiest_device, of_family, operations, operator_of
from rules.analysis.gpu.memory_bound import MemoryBound, memory_bound
from rules.analysis.names.families import Family
from rules.findings.base import Category, Finding, Rule, rule
from rules.kernels.gpu_peaks import peaks_of
from rules.kernels.operator_roofs import stated_work
from rules.losses.lost_time import event_evidence, kernel_culprit
from rules.losses.owners import operators_behind, owner_of
from rules.remedies.clocks import REACH_MEMORY
from rules.remedies.kernels import CHANNELS_LAST, FUSED_ATTENTION, fused_kernels
from rules.replay.replay import replay_of
from rules.terms import MIN_SHARE, NOBODY, Culprit, CulpritKind
from rules.wording.words import (
    Headline,
    amounts,
    counted,
    of_every_step,
    ours,
    part_of_step,
    share,
    shortened,
)


@rule
class LayoutConversion(Rule):
    id = "layout-conversion"
    category = Category.LAYOUT_CONVERSION
    explanation = """
What it found
    The GPU spends time on kernels that only rearrange tensors, such as nchwToNhwcKernel and batched_transpose.

Why it costs time
    Tensor cores want channels last (NHWC). PyTorch's default is channels first (NCHW), so the library converts the
    input and the output of every convolution. That is pure memory traffic.

How it decides
    By kernel name. The ceiling is the time of these kernels. Below {least-share} of the step nothing is reported.

What to try
    Keep the whole model and its input in channels_last, so that nothing needs to be converted.

When it is wrong
    Layers without a channels-last version convert back and forth; then the gain is smaller or negative. Measure.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        found = {
            device: of_family(analysis, operations(analysis, device, EventKind.KERNEL), Family.LAYOUT)
            for device in analysis.active_devices
        }
        worst = busiest_device(analysis, found)
        if worst is None:
            return
        events = found[worst]
        covered = union(*trace.events.spans(events))
        busy = clip(intersect(covered, analysis.time(worst).compute), *analysis.window)
        ceiling = length(busy)
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        longest = int(events[np.argmax(durations(trace, events))])
        yield self.finding(
            analysis,
            headline=Headline(
                "Tensors change layout back and forth", of_every_step(analysis, share(analysis, ceiling))
            ),
            account=(
                f"Tensors are only rearranged in {counted(analysis, len(events), 'kernel')} such as "
                f"{shortened(kernel_name(trace.name(longest)), 70)}: {part_of_step(analysis, ceiling)}."
            ),
            remedy=CHANNELS_LAST,
            ceiling_ns=ceiling,
            culprit=kernel_culprit(trace, longest),
            device=worst,
            evidence=event_evidence(trace, events),
            intervals=pairs(busy),
            unknown=(
                "Which layers cause the conversions: record with shapes and modules (record_shapes=True, "
                "with_modules=True).",
            ),
        )


def measured_sentence(trace: Trace, events: I64) -> str:
    """Counters of the profiled kernel that takes most of the time of ``events``; empty when none was profiled."""
    if not trace.kernels or not len(events):
        return ""
    from rules.kernels.join import Certainty, kernel_join

    join = kernel_join(trace)
    mine = np.isin(join.event, events) & (join.certainty >= Certainty.AMBIGUOUS)
    if not mine.any():
        return ""
    time = np.bincount(join.profile[mine], trace.events.duration[join.event[mine]].astype(np.float64))
    return profile_sentence(trace.kernels[int(time.argmax())])


def profile_sentence(kernel: KernelProfile) -> str:
    """The main verdict on one profiled launch, with its numbers."""
    from rules.kernels.checks.speed_of_light import VERDICTS, dram_percent, speed_of_light
    from rules.kernels.roofline import nearest_roof

    sol = speed_of_light(kernel)
    if sol is None:
        return ""
    dram = dram_percent(kernel)
    roof = nearest_roof(kernel)
    parts = [
        f"{percent(sol.compute / 100)} of the compute and {percent(sol.memory / 100)} of the memory throughput"
    ]
    if dram is not None:
        parts.append(f"{percent(dram / 100)} of the DRAM bandwidth")
    if roof is not None:
        parts.append(roof.text)
    return f"Nsight Compute measured {base_name(kernel.name)} at {', '.join(parts)}: {VERDICTS[sol.bound]}."


LOOKED_AT = 20  # of the longest kernels
IMPOSSIBLE = 1.1  # times the peak: the data came from the L2 cache, or the estimate is wrong


# bytes/s: half of what the slowest GPU since Pascal has, with DDR4; PCIe moves as little
SLOWEST_MEMORY = 8e9
MUCH = 1e6  # bytes of one kernel: of less, starting it is most of its time


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes per second that the longest pointwise kernels move, and the GPU's peak (0 where it is not known).

    ``each`` is how many bytes one of them moves.
    """

    bandwidth: float
    peak: float
    each: float = 0.0

    @property
    def is_elsewhere(self) -> bool:
        """Whether no memory of a GPU is that slow."""
        return self.bandwidth < SLOWEST_MEMORY and self.each >= MUCH

    @property
    def share(self) -> float:
        return self.bandwidth / self.peak if self.peak else 0.0


def pointwise_traffic(analysis: Analysis, device: int, kernels: I64) -> Traffic | None:
    """The traffic of the longest pointwise kernels among some; None without shapes, or where it cannot be right."""
    trace = analysis.trace
    if Attribute.INPUT_DIMS not in trace.attributes:
        return None
    family = analysis.family_of_string[trace.events.name[kernels]]
    pointwise = kernels[of_kinds(family, Family.ELEMENTWISE, Family.COPY_CAST)]
    longest = pointwise[np.argsort(-durations(trace, pointwise), kind="stable")][:LOOKED_AT]
    moved, time, count = 0.0, 0, 0
    for kernel in longest.tolist():
        operator = operator_of(analysis, kernel)
        work = stated_work(trace, operator, kernel) if operator >= 0 else None
        if work is not None:
            moved += work.moved
            time += int(durations(trace, kernel))
            count += 1
    if not time:
        return None
    found = trace.devices[device]
    peaks = peaks_of(found.name)
    peak = found.memory_bandwidth or (peaks.bandwidth if peaks else 0.0) or 0.0
    traffic = Traffic(moved / time * 1e9, float(peak), moved / count)
    return None if peak and traffic.bandwidth > IMPOSSIBLE * peak else traffic


ATTENTION_WORTH_A_WORD = 0.05  # of the time in such kernels


_UNKNOWN = ours(
    "How close each kernel is to the memory's bandwidth: profile the longest with $NsightCompute."
)


@rule
class MemoryBoundKernels(Rule):
    id = "memory-bound-kernels"
    category = Category.MEMORY_BOUND_KERNELS
    explanation = """
What it found
    Several kernels in a row read a tensor from memory, change each element a little and write it back: additions,
    casts, activations, masks, softmax, normalisation.

Why it costs time
    Their time is memory traffic, not arithmetic. Every kernel in the chain reads and writes everything again; one
    fused kernel would do so once. Attention written with separate operators stores a score for every pair of
    positions.

How it decides
    By kernel family and order on the stream. A chain is two or more such kernels in a row, the longest above 3 us.
    The ceiling counts the pointwise kernels of a chain that has a reduction, normalisation or softmax to fuse them
    into, all but the longest of a chain without one, and everything between the two matrix products of an attention
    with a softmax in between. Copies fused with each other save nothing, and a kernel that combines two tensors saves
    two thirds, because the second must still be read.

What to try
    torch.compile, or a fused kernel (scaled_dot_product_attention, fused LayerNorm, fused optimizers). Keep tensors
    in 16 bits, avoid copies and casts.

When it is wrong
    If the results between the kernels are needed elsewhere, they must be written anyway. Consecutive kernels need not
    work on the same tensor.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        found = [memory_bound(analysis, device) for device in analysis.active_devices]
        worst = max(found, key=lambda each: each.saved_ns, default=None)
        if worst is None or not len(worst.events):
            return
        busy = clip(union(*trace.events.spans(worst.events)), *analysis.window)
        ceiling = min(worst.saved_ns, length(busy))
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        attention = worst.attention_ns > worst.total_ns // 3
        measured = measured_sentence(trace, worst.events)
        evidence = worst.attention if attention else worst.events
        replay, owner, behind = replay_of(analysis), None, ""
        if not attention and not replay.reason:
            mine = among(replay.device.event, np.sort(worst.events))
            owner, behind = owner_of(analysis, replay, mine), operators_behind(analysis, replay, mine)
            behind = f" By time, the operators behind them are {behind}." if behind else ""
        yield self.finding(
            analysis,
            headline=Headline(
                "Attention scores go through memory" if attention else "Unfused kernels only move memory",
                of_every_step(analysis, share(analysis, ceiling)),
                names_culprit=attention,
            ),
            account=f"{_explanation(analysis, worst, length(busy), ceiling)}{behind} {measured}".strip(),
            remedy=FUSED_ATTENTION if attention else fused_kernels(trace),
            ceiling_ns=ceiling,
            culprit=Culprit(
                CulpritKind.WORK,
                "attention scores" if attention else f"{worst.families[0][0].label} kernels",
                owner,
            ),
            device=worst.device,
            evidence=event_evidence(trace, evidence),
            intervals=pairs(busy),
            unknown=("" if measured else _UNKNOWN,),
            confidence="medium",
        )


def _explanation(analysis: Analysis, worst: MemoryBound, busy: int, ceiling: int) -> str:
    text = (
        f"{counted(analysis, len(worst.events), 'kernel', verb='only move')} data, about "
        f"{len(worst.events) / max(worst.chains, 1):.0f} in a row: {part_of_step(analysis, busy)}. They are "
        f"{amounts(analysis, [(family.label, ns) for family, ns in worst.families], 4)}. Fusing them could save up "
        f"to {part_of_step(analysis, ceiling)}."
    )
    traffic = pointwise_traffic(analysis, worst.device, worst.events)
    if traffic is not None:
        text += f" From their shapes, the longest of them move about {rate(traffic.bandwidth)}"
        text += f", {percent(traffic.share)} of the memory's peak." if traffic.peak else "."
    if worst.attention_ns >= ATTENTION_WORTH_A_WORD * worst.total_ns:
        text += (
            f" {percent(worst.attention_ns / max(worst.total_ns, 1))} of it lies between the matrix products "
            "of attention: "
            "mask, softmax and copies of the scores, which a fused attention kernel never writes to memory."
        )
    return text


_MOVING = (Family.ELEMENTWISE, Family.COPY_CAST, Family.NORMALISATION, Family.SOFTMAX, Family.REDUCTION)


@dataclass(frozen=True, slots=True)
class _Slowed:
    """Kernels of one device that only move data, their time in the window, and how fast the longest of them are."""

    device: int
    kernels: I64
    busy: Intervals
    traffic: Traffic

    @property
    def lost_ns(self) -> int:
        """What they would not take on the slowest GPU's own memory, or on this one's where its rate is known."""
        own = max(self.traffic.peak, 2 * SLOWEST_MEMORY)
        return round(length(self.busy) * (1 - self.traffic.bandwidth / own))


@rule
class SlowMemory(Rule):
    id = "slow-memory"
    category = Category.SLOW_MEMORY
    explanation = f"""
What it found
    Kernels that only read and write tensors move less than {rate(SLOWEST_MEMORY)}, and no GPU's memory is that slow.

Why it costs time
    Either the tensors are not in the GPU's memory: more was allocated than fits, and the driver keeps the rest on the
    host without saying so, as on Windows. Or the memory's clock is very low, as on a laptop that saves power. Nearly
    every kernel is slower because of it, and what is said of single kernels is said of the slowed GPU.

How it decides
    From the shapes of the operators behind the longest elementwise kernels and copies, if they move 1 MB each or more.
    The ceiling is what kernels that move data would not take at the memory's own rate, or at that of the slowest GPU's
    where it is not known. Below {{least-share}} of the step nothing is reported.

What to try
    Look at the memory clock and at what is allocated while the program runs.

When it is wrong
    Kernels that compute much for each element, and shapes of views, of which less is read.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        found = (_slowed(analysis, device) for device in analysis.active_devices)
        worst = max((each for each in found if each is not None), key=lambda each: each.lost_ns, default=None)
        if worst is None or share(analysis, worst.lost_ns) < analysis.thresholds[MIN_SHARE]:
            return
        busy, reached = length(worst.busy), rate(worst.traffic.bandwidth)
        yield self.finding(
            analysis,
            headline=Headline(
                f"Kernels reach their tensors at only {reached}",
                of_every_step(analysis, share(analysis, busy)),
            ),
            account=(
                f"Kernels that only move data take {part_of_step(analysis, busy)}. From their shapes, the longest of "
                f"them move {reached}. No GPU's own memory is that slow: these tensors lie in the host's memory, as "
                "when they do not fit, or the memory's clock was very low."
            ),
            remedy=REACH_MEMORY,
            ceiling_ns=worst.lost_ns,
            culprit=NOBODY,
            device=worst.device,
            evidence=event_evidence(analysis.trace, worst.kernels),
            intervals=pairs(worst.busy),
            unknown=("Which of the two it is: log the memory's clock and use beside the recording.",),
            confidence="medium",
        )


def _slowed(analysis: Analysis, device: int) -> _Slowed | None:
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    traffic = pointwise_traffic(analysis, device, kernels)
    if traffic is None or not traffic.is_elsewhere:
        return None
    moving = kernels[of_kinds(analysis.family_of_string[trace.events.name[kernels]], *_MOVING)]
    return _Slowed(device, moving, clip(union(*trace.events.spans(moving)), *analysis.window), traffic)
