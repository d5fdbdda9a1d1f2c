"""The GPU is busy nearly all the time: what it does with its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace
from parsers.model.late import regex
from parsers.model.names.kernels import kernel_name
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations, length, time_by_name
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.analysis.gpu.inside_window import of_family, of_type, operations
from rules.analysis.gpu.unified_memory import waiting_for_pages
from rules.analysis.idle.causes import Budget, Cause
from rules.analysis.names.families import Family
from rules.findings.base import Category, Finding, Rule, remedy, rule
from rules.kernels.gpu_peaks import DOUBLE, FEWER_UNITS, has_few_units, has_tensor_cores
from rules.losses.lost_time import between_nodes, event_evidence
from rules.terms import MAJORITY, NOBODY, Culprit, CulpritKind, Unit, threshold
from rules.wording.words import Headline, Words, for_native, for_python, listed, ours, share, shortened

MIN_COMPUTE = threshold(
    "gpu-bound",
    "the GPU is the limit when every active GPU computes for at least this share of the time",
    Unit.SHARE,
    0.9,
    least=0.5,
    most=0.999,
    source="at most a tenth remains to be gained outside kernels",
)
# of the window in kernels alone: below it queued work waits for something, not for the GPU
MAX_NAMED, NOTEWORTHY_KERNEL = 3, 0.05
NOTEWORTHY_OTHER = 0.1  # of the time: a kernel of no known family is named beside the families
_PRODUCTS = (Family.GEMM, Family.CONVOLUTION, Family.ATTENTION)
_MOVING = (
    Family.ELEMENTWISE,
    Family.NORMALISATION,
    Family.SOFTMAX,
    Family.REDUCTION,
    Family.COPY_CAST,
    Family.LAYOUT,
    Family.TRITON,
    Family.OPTIMIZER,
)
NOTEWORTHY_STARTING = 0.03
_STARTING = (
    "{} of the time lies between kernels that were already queued: starting each takes the GPU about a "
    "microsecond, which fewer, longer kernels would save."
)

_CODE = """with torch.profiler.profile(record_shapes=True, with_flops=True) as prof:   # which operators and shapes
    train_step(batch)
print(prof.key_averages(group_by_input_shape=True).table(sort_by="cuda_time_total", row_limit=15))"""

_SINGLE = (
    "Compute with float where the accuracy allows it, and look for accidental doubles: 1.0 instead of 1.0f, sin() "
    "instead of sinf()."
)
_NARROW = ("fp4", "fp8", "int8")  # below them there is little to go
_INSTANCE = regex(r"(?<=\w)-?\.\d+\Z")  # XLA numbers the instructions of a module: "fusion.12"


@rule
class GpuBound(Rule):
    id = "gpu-bound"
    category = Category.GPU_BOUND
    explanation = """
What it found
    The GPU computes nearly all the time. This is the goal.

Why it costs time
    It does not. The only thing left is to make the kernels themselves faster, or to give them less to do.

How it decides
    Kernels other than communication, and the moments between kernels that were already queued, cover at least
    {gpu-bound} of the analysed time on every GPU, and the kernels alone at least half. Where the kernels of a
    graph are too short, that is a finding of its own. A kernel that takes most of the time and has double in its
    signature is named on a GPU with few units for FP64.

What to try
    Look at the kernel families that take most of the time. Lower precision, better shapes, fused attention, a smaller
    model, more GPUs. Nsight Compute shows how good a single kernel is.

When it is wrong
    Busy does not mean well used: a kernel that uses a tenth of the GPU also counts as busy.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        budgets = [analysis.budgets(device) for device in analysis.active_devices]
        if not budgets or analysis.window_ns <= 0:
            return
        lowest = min(budgets, key=_busy)
        if (
            share(analysis, _busy(lowest)) < analysis.thresholds[MIN_COMPUTE]
            or share(analysis, lowest.compute_ns) < MAJORITY
            or between_nodes(analysis)[1]
            or length(waiting_for_pages(analysis, lowest.device)) > MAJORITY * lowest.compute_ns
        ):
            return
        starting = share(analysis, lowest.idle_ns[Cause.DEPENDENCY])
        kernels = operations(analysis, lowest.device, EventKind.KERNEL, EventKind.GRAPH)
        families = _families(analysis, kernels)
        in_double = _takes_doubles(analysis, lowest.device, kernels)
        yield self.finding(
            analysis,
            headline=Headline(
                "The GPU is the limit",
                f"{percent(share(analysis, lowest.compute_ns))} of the time it computes",
            ),
            account=(
                "There is little to gain between the kernels. Where its time goes: "
                + listed(_names(analysis, kernels, families))
                + "."
                + _few_blocks(analysis, lowest.device, kernels)
                + (f" {in_double}" if in_double else "")
                + (f" {_STARTING.format(percent(starting))}" if starting >= NOTEWORTHY_STARTING else "")
            ),
            remedy=remedy(
                *((_SINGLE,) if in_double else ()),
                *_faster(analysis, lowest.device, kernels, families[0][0] if families else Family.OTHER),
                ours("Profile its longest kernel with $NsightCompute."),
                code=_CODE,
            ),
            culprit=Culprit(CulpritKind.WORK, families[0][0].label) if families else NOBODY,
            device=lowest.device,
            evidence=event_evidence(trace, kernels, 5),
            unknown=(ours("How well the kernels use the GPU: this requires $NsightComputes counters."),),
        )


def _faster(analysis: Analysis, device: int, kernels: I64, family: Family) -> tuple[Words, ...]:
    """What makes kernels of a family faster whatever they compute; nothing for those that nobody knows by name."""
    if family in _PRODUCTS:
        return _faster_products(analysis, device, of_family(analysis, kernels, *_PRODUCTS))
    return (
        ("Make the largest family faster: smaller data types, fused kernels.",) if family in _MOVING else ()
    )


def _faster_products(analysis: Analysis, device: int, products: I64) -> tuple[Words, ...]:
    """By the types with which they compute for most of their time, as far as their names tell."""
    took = durations(analysis.trace, products)
    if not is_amd(analysis.trace) and not has_tensor_cores(analysis.trace.devices[device]):
        return (
            ours(
                "Compute less in the products: this GPU has no $tensor cores, so that lower precision gains little or "
                "nothing, where a GPU that has them would be several times faster."
            ),
        )

    def are_mostly(*types: str) -> bool:
        return bool(took[of_type(analysis, products, *types)].sum() > MAJORITY * took.sum())

    if are_mostly(*_NARROW):
        return (
            "Give each product more rows: its types are already narrow, and with few rows it only reads the weights.",
        )
    if are_mostly(*_NARROW, "fp16", "bf16"):
        return (
            ours(
                "Its products compute in 16 bits already: what is left are shapes that fit the $tensor cores, and 8 "
                "bits where the model tolerates them (FP8 on newer GPUs, INT8 on older ones)."
            ),
        )
    return (
        for_python(
            ours("Make the largest family faster: lower precision, shapes that fit the $tensor cores.")
        ),
        for_native(
            ours("Make the products faster: library kernels, or lower precision where that is exact enough.")
        ),
    )


def _names(analysis: Analysis, kernels: I64, families: list[tuple[Family, float]]) -> list[str]:
    """The families with their shares, and the largest kernels of none, or only these where most time is theirs."""
    others = next((part for family, part in families if family is Family.OTHER), 0.0)
    if families and families[0][0] is Family.OTHER and others >= MAJORITY:
        return [f"{shortened(name)} {percent(part)}" for name, part in _largest(analysis, kernels, kernels)]
    unknown = of_family(analysis, kernels, Family.OTHER)
    named = [each for each in _largest(analysis, kernels, unknown) if each[1] >= NOTEWORTHY_OTHER]
    left = others - sum(part for _, part in named)
    told = [(family.label, part) for family, part in families if family is not Family.OTHER]
    told += [(shortened(name), part) for name, part in named]
    if left >= NOTEWORTHY_KERNEL or (others and not named):
        told.append((Family.OTHER.label, left))
    return [f"{name} {percent(part)}" for name, part in sorted(told, key=lambda each: -each[1])]


def _largest(analysis: Analysis, kernels: I64, among: I64) -> list[tuple[str, float]]:
    """The noteworthy ones among some kernels, or else the largest, with their shares of the time of all of them."""
    trace = analysis.trace
    whole, time = time_by_name(trace, kernels).sum(), time_by_name(trace, among)
    shares: defaultdict[str, float] = defaultdict(float)
    for name in np.flatnonzero(time).tolist():
        shares[_INSTANCE.sub("", kernel_name(trace.strings[name]))] += float(time[name] / whole)
    largest = sorted(shares.items(), key=lambda each: -each[1])[:MAX_NAMED]
    return [each for each in largest if each[1] >= NOTEWORTHY_KERNEL] or largest[:1]


def _longest(trace: Trace, kernels: I64) -> int:
    """The name of the kernel that takes most of the time; -1 where none does."""
    if not len(kernels):
        return -1
    time = time_by_name(trace, kernels)
    longest = int(time.argmax())
    return longest if time[longest] >= MAJORITY * time.sum() else -1


def _takes_doubles(analysis: Analysis, device: int, kernels: I64) -> str:
    """That this kernel takes 64-bit numbers on a GPU with few units for them; empty where nothing says so."""
    trace = analysis.trace
    longest, compute = _longest(trace, kernels), trace.devices[device].compute_capability
    if (
        longest < 0
        or not has_few_units(compute)
        or is_amd(trace)
        or not DOUBLE.search(trace.strings[longest])
    ):
        return ""
    return (
        f"{shortened(kernel_name(trace.strings[longest]))} takes numbers of type double, and this GPU has at most "
        f"one FP64 unit for {FEWER_UNITS} of FP32."
    )


def _few_blocks(analysis: Analysis, device: int, kernels: I64) -> Words:
    """That the kernel which takes most of the time has fewer blocks than the GPU has SMs; empty where it has enough."""
    trace, sms = analysis.trace, analysis.trace.devices[device].sm_count
    longest = _longest(trace, kernels)
    if longest < 0 or not sms:
        return ""
    mine = kernels[trace.events.name[kernels] == longest]
    blocks = int(trace.attribute(Attribute.GRID, mine).max())
    if not 0 < blocks < sms:
        return ""
    told = (
        f" {shortened(kernel_name(trace.strings[longest]))} has {blocks} block{'s' if blocks != 1 else ''}: "
    )
    return told + ours(f"{sms - blocks} of the {sms} $SMs have none.")


def _busy(budget: Budget) -> int:
    """Computing, or between operations that were queued already: the CPU has no part in either."""
    return budget.compute_ns + budget.idle_ns[Cause.DEPENDENCY]


def _families(analysis: Analysis, kernels: I64) -> list[tuple[Family, float]]:
    trace = analysis.trace
    time = np.bincount(
        analysis.family_of_string[trace.events.name[kernels]],
        durations(trace, kernels),
        minlength=len(Family),
    )
    order = np.argsort(-time, kind="stable")[:5].tolist()
    whole = max(float(time.sum()), 1.0)
    return [(Family(index), float(time[index]) / whole) for index in order if time[index] > 0]
