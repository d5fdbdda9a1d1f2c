"""Matrix products and convolutions in double precision, which deep learning hardly ever needs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, EventKind, Trace
from parsers.model.names.kernels import kernel_name
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.arithmetic.intervals import clip, length, pairs, union
from rules.analysis.gpu.inside_window import busiest_device, of_family, of_type, operations
from rules.analysis.names.families import Family, is_product_with_a_vector
from rules.analysis.names.host_language import is_python
from rules.findings.base import Category, Finding, Rule, rule
from rules.kernels.gpu_peaks import peaks_of
from rules.losses.lost_time import event_evidence
from rules.remedies.kernels import single_precision
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.shares import MAJORITY
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import counted, of_every_step, part_of_step, share, shortened
from rules.wording.words import Words, ours

# Peak TF32 rate over peak FP64 tensor rate, from NVIDIA's data sheets: A100 156/19.5, H100 495/67.
USUAL_RATIO = 8.0
HALF_THE_BYTES = 2.0  # what memory limits becomes this much faster with numbers of half the size
FIRST_WITH_TF32 = (8, 0)  # Ampere


@rule
class DoublePrecision(Rule):
    """Matrix products in FP64 in a Python program."""

    id = "double-precision"
    category = Category.FP64
    explanation = """
What it found
    Matrix products or convolutions compute with 64-bit numbers.

Why it costs time
    Double precision moves twice the bytes of FP32 and runs at an eighth of the tensor cores' TF32 rate at best, and
    at a hundredth on most graphics GPUs. In deep learning it is usually an accident: numpy arrays are float64 by
    default, and one such tensor turns everything it touches into float64.

How it decides
    By the kernels' names (dgemm, d884, f64, double), in programs that run Python. The ceiling is the time of these
    kernels, less what they would still need at the peak rate of TF32 (before Ampere: FP32); products with a vector,
    which are limited by memory, get at most twice as fast.

What to try
    Convert the input and the model to float32, or use mixed precision. Find out where the first float64 tensor comes
    from.

When it is wrong
    When the computation needs double precision, as simulations, solvers and some statistics do.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        if not is_python(trace):
            return
        found = {device: _in_double(analysis, device) for device in analysis.active_devices}
        worst = busiest_device(analysis, found)
        if worst is None:
            return
        events = found[worst]
        busy = clip(union(*trace.events.spans(events)), *analysis.window)
        ratio, vectors = _ratio(trace, worst), _vector_share(trace, events)
        ceiling = int(length(busy) * (vectors * (1 - 1 / HALF_THE_BYTES) + (1 - vectors) * (1 - 1 / ratio)))
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        longest = kernel_name(trace.name(int(events[np.argmax(durations(trace, events))])))
        yield self.finding(
            analysis,
            headline=Headline(
                "Matrix products in double precision", of_every_step(analysis, share(analysis, length(busy)))
            ),
            account=(
                f"{counted(analysis, len(events), 'matrix product', verb='compute')} with 64-bit numbers: "
                f"{part_of_step(analysis, length(busy))}. The longest is {shortened(longest, 90)}. "
                + _what_it_gives(trace, worst, ratio, vectors)
            ),
            remedy=single_precision(trace, then_tf32=_has_tf32(trace, worst) and vectors < MAJORITY),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.KERNEL, shortened(longest, 120)),
            device=worst,
            evidence=event_evidence(trace, events),
            intervals=pairs(busy),
            unknown=("Whether the computation needs double precision.",),
            confidence="medium",
        )


def _what_it_gives(trace: Trace, device: int, ratio: float, vectors: float) -> Words:
    if vectors >= MAJORITY:
        return (
            "They are products of a matrix and a vector, which are limited by memory: 32-bit numbers have half the "
            "bytes, so they would be at most twice as fast."
        )
    if _has_tf32(trace, device):
        return "In TF32 on the " + ours("$tensor cores they would be up to ") + f"{ratio:.3g} times faster."
    return f"In FP32 they would be up to {ratio:.3g} times faster."


def _has_tf32(trace: Trace, device: int) -> bool:
    capability = trace.devices[device].compute_capability
    return capability is None or capability >= FIRST_WITH_TF32


def _vector_share(trace: Trace, events: I64) -> float:
    """The share of the time that is spent in products with a vector."""
    times = durations(trace, events)
    vectors = named(trace, events, is_product_with_a_vector)
    return float(times[vectors].sum() / max(times.sum(), 1))


def _in_double(analysis: Analysis, device: int) -> I64:
    kernels = of_family(
        analysis, operations(analysis, device, EventKind.KERNEL), Family.GEMM, Family.CONVOLUTION
    )
    return kernels[of_type(analysis, kernels, "fp64")]


def _ratio(trace: Trace, device: int) -> float:
    peaks = peaks_of(trace.devices[device].name)
    if peaks is None:
        return USUAL_RATIO
    rates = peaks.operations
    double = max(rates.get("fp64", 0.0), rates.get("fp64_tensor", 0.0))
    single = max(rates.get("fp32", 0.0), rates.get("tf32", 0.0))
    return single / double if double and single > double else USUAL_RATIO
