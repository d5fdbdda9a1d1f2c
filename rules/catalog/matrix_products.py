"""Matrix products and convolutions in double precision, or with shapes that do not fit the GPU."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace
from parsers.model.arrays import without
from parsers.model.late import regex
from parsers.model.names.kernels import kernel_name
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, durations, length, pairs, union
from rules.analysis.gpu.inside_window import (
    busiest_device,
    of_family,
    of_type,
    operations,
    operator_of,
    total,
)
from rules.analysis.gpu.launch_sizes import nearly_empty
from rules.analysis.names.families import Family, is_depthwise, is_product_with_a_vector
from rules.analysis.names.host_language import is_python
from rules.findings.base import Category, Finding, Rule, Severity, remedy, rule
from rules.kernels.factorisations import MEANT, factorises
from rules.kernels.gpu_peaks import HALF_THE_BYTES, peaks_of
from rules.kernels.slow_operators import UNALIGNED
from rules.losses.lost_time import event_evidence, kernel_culprit
from rules.remedies.kernels import CHANNELS_LAST, PAD_SHAPES, single_precision
from rules.terms import MAJORITY, MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import (
    Headline,
    Words,
    counted,
    for_native,
    for_python,
    of_every_step,
    ours,
    part_of_step,
    share,
    shortened,
)

# Peak TF32 rate over peak FP64 tensor rate, from NVIDIA's data sheets: A100 156/19.5, H100 495/67.
USUAL_RATIO = 8.0
FIRST_WITH_TF32 = (8, 0)  # Ampere


@rule
class DoublePrecision(Rule):
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
    which are limited by memory, get at most twice as fast. Convolutions with a filter for each channel are no
    products.

What to try
    Convert the input and the model to float32, or use mixed precision. Find out where the first float64 tensor comes
    from.

When it is wrong
    When the computation needs double precision, as simulations, solvers and some statistics do. Where factorisations
    and triangular solves take a fifth of the time in double precision, that is usually meant, and it is told as
    something small.
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
        meant = _is_meant(analysis, worst)
        title = "Matrices are factorised" if meant else "Matrix products"
        yield self.finding(
            analysis,
            severity=Severity.LOW if meant else None,
            headline=Headline(
                f"{title} in double precision", of_every_step(analysis, share(analysis, length(busy)))
            ),
            account=(
                f"{counted(analysis, len(events), 'matrix product', verb='compute')} with 64-bit numbers: "
                f"{part_of_step(analysis, length(busy))}. The longest is {shortened(longest, 90)}. "
                + ("Factorisations and triangular solves often need them. " if meant else "")
                + _what_it_gives(trace, worst, ratio, vectors)
            ),
            remedy=single_precision(
                trace, then_tf32=_has_tf32(trace, worst) and vectors < MAJORITY, factorises=meant
            ),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.KERNEL, shortened(longest, 120)),
            device=worst,
            evidence=event_evidence(trace, events),
            intervals=pairs(busy),
            unknown=("Whether the computation needs double precision.",),
            confidence="low" if meant else "medium",
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
    return kernels[of_type(analysis, kernels, "fp64") & ~named(analysis.trace, kernels, is_depthwise)]


def _is_meant(analysis: Analysis, device: int) -> bool:
    """Whether factorisations and triangular solves take so much of the time in double precision."""
    kernels = operations(analysis, device, EventKind.KERNEL)
    kernels = kernels[of_type(analysis, kernels, "fp64")]
    times = durations(analysis.trace, kernels)
    return bool(times[factorises(analysis.trace, kernels)].sum() >= MEANT * times.sum())


def _ratio(trace: Trace, device: int) -> float:
    peaks = peaks_of(trace.devices[device].name)
    if peaks is None:
        return USUAL_RATIO
    rates = peaks.operations
    double = max(rates.get("fp64", 0.0), rates.get("fp64_tensor", 0.0))
    single = max(rates.get("fp32", 0.0), rates.get("tf32", 0.0))
    return single / double if double and single > double else USUAL_RATIO


MIN_SMALL_SHARE = 0.1  # of the window in products that fill less than half of the GPU
LONG_ENOUGH_NS = 10_000  # a shorter product is bound by its launch, not by its size
ALIGNMENT = 8  # elements: 16 bytes of a 16-bit type (NVIDIA's deep learning performance guide)
MISALIGNED_COST = 0.5  # of the time: unaligned loads move at most half as much for each instruction
_TENSOR, _NUMBER = regex(r"\[([\d,\s]*)\]"), regex(r"\d+")


@rule
class AwkwardMatrixShapes(Rule):
    id = "awkward-matrix-shapes"
    category = Category.GEMM_SHAPE
    explanation = """
What it found
    16-bit matrix products run kernels for unaligned data, or so few blocks that most of the GPU stays empty.

Why it costs time
    Tensor cores are fed 16 bytes at a time. If a dimension is not a multiple of 8 elements, the library must load in
    smaller pieces. A product with fewer blocks than the GPU has multiprocessors leaves the others idle.

How it decides
    By the kernel's name (align1, align2) for 16-bit types; the ceiling is half of their time. Products of at least 10
    us whose grid has fewer blocks than half of the multiprocessors are reported, without a ceiling, from 10 % of the
    step.

What to try
    Pad vocabulary, hidden sizes and batch to multiples of 8, or better 64. Combine small products: batched products,
    larger batches, fused projections for query, key and value.

When it is wrong
    Small products in inference with one request are limited by reading the weights; more blocks would not help.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        for device in analysis.active_devices:
            products = of_family(
                analysis, operations(analysis, device, EventKind.KERNEL), Family.GEMM, Family.CONVOLUTION
            )
            found = [*self._misaligned(analysis, device, products)] or [
                *self._small(analysis, device, products)
            ]
            if found:
                yield from found
                return

    def _misaligned(self, analysis: Analysis, device: int, products: I64) -> Iterable[Finding]:
        trace = analysis.trace
        misaligned = named(trace, products, UNALIGNED.search)
        events = products[misaligned & of_type(analysis, products, "fp16", "bf16")]
        busy = clip(union(*trace.events.spans(events)), *analysis.window)
        ceiling = int(length(busy) * MISALIGNED_COST)
        if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        longest = int(events[np.argmax(durations(trace, events))])
        shapes, image = _shapes(analysis, longest), _image(analysis, longest)
        yield self.finding(
            analysis,
            headline=Headline(
                "Matrix shapes are misaligned", of_every_step(analysis, share(analysis, length(busy)))
            ),
            account=(
                f"Kernels for unaligned data run {counted(analysis, len(events), 'matrix product')} in 16 bits, "
                f"such as {shortened(kernel_name(trace.name(longest)), 80)}: "
                f"{part_of_step(analysis, length(busy))}. "
                + (
                    _of_an_image(image)
                    if image
                    else f"A dimension is not a multiple of {ALIGNMENT}."
                    + (f" The longest multiplies {shapes}." if shapes else "")
                )
            ),
            remedy=CHANNELS_LAST if image else PAD_SHAPES,
            ceiling_ns=ceiling,
            culprit=_culprit(trace, longest, shapes),
            device=device,
            evidence=event_evidence(trace, events),
            intervals=pairs(busy),
            unknown=("" if shapes else "Which layer this is: record with shapes (record_shapes=True).",),
            confidence="medium",
        )

    def _small(self, analysis: Analysis, device: int, products: I64) -> Iterable[Finding]:
        trace = analysis.trace
        processors = trace.devices[device].sm_count
        if not processors or not len(products):
            return
        blocks = trace.attribute(Attribute.GRID, products)
        long_enough = durations(trace, products) >= LONG_ENOUGH_NS
        events = products[(blocks > 0) & (blocks < MAJORITY * processors) & long_enough]
        events = without(events, nearly_empty(analysis, device)[0])
        if share(analysis, total(analysis, events)) < MIN_SMALL_SHARE:
            return
        longest = int(events[np.argmax(durations(trace, events))])
        used = int(trace.attribute(Attribute.GRID, np.array([longest], np.int64))[0])
        yield self.finding(
            analysis,
            headline=Headline(
                "Matrix products fill less than half of the GPU",
                percent(share(analysis, total(analysis, events))),
            ),
            account=(
                f"{counted(analysis, len(events), 'matrix product', verb='take')} "
                f"{part_of_step(analysis, total(analysis, events))} with fewer "
                f"blocks than half of the {processors} multiprocessors; the longest has {used}."
            ),
            remedy=remedy(
                for_python(
                    "Combine them: a larger batch, batched products, one product for query, key and value."
                ),
                for_native(
                    "Divide them into more blocks (split-K), or put several products into one launch."
                ),
                code="query, key, value = torch.nn.Linear(width, 3 * width)(x).chunk(3, dim=-1)  # one, not three",
            ),
            culprit=_culprit(trace, longest, _shapes(analysis, longest)),
            device=device,
            evidence=event_evidence(trace, events),
            unknown=(
                ours(
                    "Whether they are limited by reading the weights: profile the longest with $NsightCompute."
                ),
            ),
            confidence="low",
        )


def _culprit(trace: Trace, kernel: int, shapes: str) -> Culprit:
    return Culprit(CulpritKind.WORK, shapes) if shapes else kernel_culprit(trace, kernel)


def _tensors(analysis: Analysis, kernel: int) -> list[list[int]]:
    """The sizes of the tensors that the kernel's operator takes, vectors and scalars left out."""
    operator = operator_of(analysis, kernel)
    stated = analysis.trace.text_attribute(Attribute.INPUT_DIMS, operator) if operator >= 0 else ""
    sizes = [[int(number) for number in _NUMBER.findall(each)] for each in _TENSOR.findall(stated)]
    return [each for each in sizes if len(each) > 1]


def _shapes(analysis: Analysis, kernel: int) -> str:
    """ "[64, 256] by [256, 1024]": the two tensors that the kernel's operator multiplies; empty when not recorded."""
    return " by ".join(
        f"[{', '.join(str(size) for size in each)}]" for each in _tensors(analysis, kernel)[-2:]
    )


def _image(analysis: Analysis, kernel: int) -> tuple[int, int] | None:
    """Height and width of the image that a convolution, written as a matrix product, has as an odd inner dimension.

    None for other products, and where that dimension is a multiple of what the tensor cores take.
    """
    operator = operator_of(analysis, kernel)
    if operator < 0 or "conv" not in analysis.trace.name(operator):
        return None
    images = [each[-2:] for each in _tensors(analysis, kernel) if len(each) == 4][
        :-1
    ]  # the last is the weights
    odd = [(height, width) for height, width in images if height * width > 1 and height * width % ALIGNMENT]
    return odd[0] if odd else None


def _of_an_image(image: tuple[int, int]) -> str:
    height, width = image
    return (
        "They are convolutions. With channels first, the matrix's inner dimension is the image: of the longest "
        f"{height} x {width} = {height * width:,} elements, which is not a multiple of {ALIGNMENT}."
    )
