"""Matrix products and convolutions that do not use the tensor cores."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, EventKind
from parsers.model.late import regex
from parsers.model.names.kernels import kernel_name
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, durations, length, pairs, union
from rules.analysis.gpu.inside_window import busiest_device, of_family, operations, total
from rules.analysis.gpu.launch_sizes import has_own_name, launched_alone
from rules.analysis.names.families import Family, classify, is_product_with_a_vector
from rules.analysis.names.host_language import is_python
from rules.findings.base import Category, Finding, Rule, rule
from rules.kernels.gpu_peaks import has_tensor_cores, tensor_core_rates
from rules.losses.lost_time import event_evidence, kernel_culprit
from rules.remedies.kernels import LIBRARY_PRODUCT, tensor_cores
from rules.terms import MIN_SHARE
from rules.wording.words import Headline, Words, of_every_step, ours, part_of_step, share, shortened

FULL_PRECISION = ("fp32", None)
_FLOATS = regex(r"\((?:const )?float(?: const)?\s?\*")  # the first parameter of a kernel


@rule
class NoTensorCores(Rule):
    id = "no-tensor-cores"
    category = Category.NO_TENSOR_CORES
    explanation = """
What it found
    Matrix products or convolutions run on the ordinary FP32 units, although this GPU has tensor cores.

Why it costs time
    Tensor cores multiply matrices about eight times faster (TF32 against FP32 on A100 and H100), and sixteen times
    faster in bf16 or fp16. Those of other GPUs gain less: on GeForce cards from RTX 30 on, TF32 is as fast as FP32,
    and 16 bits are twice as fast.

How it decides
    By the kernels' names: cuBLAS, cuDNN and CUTLASS say which instructions a kernel uses (ffma, simt and sgemm
    against tensorop, s1688, s16816, wgmma, nvjet). A product in a kernel of a Python program's own, which no operator
    launched and whose parameters are CUDA C's floats, counts as well. Double precision and products of a matrix with a
    vector are left out. The ceiling is the time of these kernels, less what the tensor cores' peak rate would still
    need.

What to try
    Allow TF32 (from A100 on), or use automatic mixed precision: in bf16, on older GPUs in fp16. Make dimensions
    multiples of 8 (16-bit types).

When it is wrong
    When the computation needs full FP32 accuracy. Memory-bound products gain less than the ceiling says.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        found = {
            device: _without(analysis, device)
            for device in analysis.active_devices
            if has_tensor_cores(trace.devices[device])
        }
        worst = busiest_device(analysis, found)
        if worst is None:
            return
        events, rates = found[worst], tensor_core_rates(trace, worst)
        busy = clip(union(*trace.events.spans(events)), *analysis.window)
        ceiling = int(length(busy) * (1 - 1 / rates.easiest))
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        longest = int(events[np.argmax(durations(trace, events))])
        own = longest in _own(analysis, worst).tolist()
        convolutions = total(analysis, of_family(analysis, events, Family.CONVOLUTION))
        yield self.finding(
            analysis,
            headline=Headline(
                ours("Matrix products without $tensor cores"),
                of_every_step(analysis, share(analysis, length(busy))),
            ),
            account=_explanation(analysis, worst, events, length(busy), trace.name(longest), is_own=own),
            remedy=LIBRARY_PRODUCT
            if own
            else tensor_cores(
                trace,
                worst,
                products=convolutions < total(analysis, events),
                convolutions=convolutions > 0,
                tf32=rates.has_fast_tf32,
            ),
            ceiling_ns=ceiling,
            culprit=kernel_culprit(trace, longest),
            device=worst,
            evidence=event_evidence(trace, events),
            intervals=pairs(busy),
            unknown=(
                ours(
                    "Whether the model tolerates lower precision, and how close these kernels are to the FP32 "
                    "peak ($NsightCompute)."
                ),
            ),
            confidence="medium" if own else "high",
        )


def _without(analysis: Analysis, device: int) -> I64:
    kernels = of_family(
        analysis, operations(analysis, device, EventKind.KERNEL), Family.GEMM, Family.CONVOLUTION
    )
    names = analysis.trace.events.name[kernels]
    classes = analysis.classes
    wanted = np.array(
        [
            classes[name].tensor_core is False and classes[name].dtype in FULL_PRECISION
            for name in names.tolist()
        ],
        bool,
    )
    if not len(kernels):
        return kernels
    return np.sort(np.concatenate((kernels[wanted], _own(analysis, device))))


def _own(analysis: Analysis, device: int) -> I64:
    """Products in a Python program's own kernels, from CUDA C's floats, whose names tell of no tensor cores."""
    trace = analysis.trace
    kernels = of_family(analysis, operations(analysis, device, EventKind.KERNEL), Family.GEMM)
    if not is_python(trace) or EventKind.CPU_OP not in trace.kinds:
        return kernels[:0]
    kernels = kernels[has_own_name(trace, kernels) & named(trace, kernels, _multiplies_floats)]
    return kernels[launched_alone(analysis, kernels)]


def _multiplies_floats(name: str) -> bool:
    known = classify(name)
    plain = known.tensor_core is None and known.dtype in FULL_PRECISION
    return plain and not is_product_with_a_vector(name) and _FLOATS.search(name) is not None


def _explanation(
    analysis: Analysis, device: int, events: I64, busy: int, name: str, *, is_own: bool
) -> Words:
    kernels = of_family(
        analysis, operations(analysis, device, EventKind.KERNEL), Family.GEMM, Family.CONVOLUTION
    )
    part = total(analysis, events) / max(total(analysis, kernels), 1)
    rates = tensor_core_rates(analysis.trace, device)
    return (
        f"{percent(part)} of the time in matrix products and convolutions is spent on ordinary FP32 units: "
        f"{part_of_step(analysis, busy)}. The longest is {shortened(kernel_name(name), 90)}"
        + (", a kernel of the program's own. " if is_own else ". ")
        + ours("$Tensor cores would be up to ")
        + f"{rates.easiest:.3g} times faster"
        + ("." if rates.has_fast_tf32 or not rates.tf32 else " in 16 bits: its TF32 is as fast as FP32.")
    )
