"""What calculates with 64-bit numbers does so with 32 bits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family, is_product_with_a_vector
from rules.analysis.names.host_language import is_python
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import faster, together, total
from rules.kernels.gpu_peaks import peaks_of
from rules.remedies.kernels import single_precision
from rules.replay.replay import Replay

# Peak rates of H100 over its FP64 units, for a GPU whose rates are not known: the tensor cores' FP64, FP32, TF32.
USUAL_RATES = {"fp64": 1.0, "fp64_tensor": 2.0, "fp32": 2.0, "tf32": 14.8}
REACHED, REACHED_AT_LEAST = 0.8, 0.4  # of a ratio of peak rates by real products
PRODUCTS = 1.5  # times as fast at least, most likely: between half the bytes and rates that are alike
HALF_THE_BYTES = 2.0  # what memory limits becomes this much faster with numbers of half the size


@fix
class UseSinglePrecision:
    """Kernels in FP64 of a Python program, by their names."""

    id = "use-single-precision"
    explanation = """
When it applies
    A Python program computes with 64-bit numbers, usually because numpy creates them by default.

What is changed in the replay
    Convolutions take the time that TF32 would need, which libraries use for them by default, and matrix products that
    of FP32, at 0.8 of the ratio of the peak rates, or two thirds of their time where that is less; all other kernels,
    and products with a vector, take half their time.

What makes it more or less
    Whether the computation tolerates 32 bits at all. Matrix products may use TF32 too, which must be allowed.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        names, classes = trace.events.name[device.members], analysis.classes
        double = np.array([each.dtype == "fp64" for each in classes], bool)[names]
        share = total(replay, double) / max(total(replay, np.ones(len(names), bool)), 1.0)
        if share < MIN_GPU_SHARE or not is_python(trace):
            return
        peaks = peaks_of(trace.devices[int(device.device[0])].name)
        rates = peaks.operations if peaks and "fp64" in peaks.operations else USUAL_RATES
        families = analysis.family_of_string[names]
        on_tensor_cores = np.array([each.tensor_core is True for each in classes], bool)[names]
        recorded = np.where(on_tensor_cores, rates.get("fp64_tensor", rates["fp64"]), rates["fp64"])
        single, tf32 = rates["fp32"], rates.get("tf32", rates["fp32"])
        vectors = named(trace, device.members, is_product_with_a_vector)
        convolution = double & (families == Family.CONVOLUTION)
        product = double & (families == Family.GEMM) & ~vectors
        rest = faster(replay, double & ~convolution & ~product, HALF_THE_BYTES)
        ratio = np.where(convolution, tf32, single) / recorded
        most = np.maximum(tf32 / recorded, HALF_THE_BYTES)
        products = convolution | product
        yield Proposal(
            title=f"Use 32-bit numbers: {percent(share)} of the GPU's time computes in double precision",
            categories=(Category.FP64, Category.SLOW_OPERATOR),
            culprit=trace.name(int(device.members[np.flatnonzero(double)[0]])),
            remedy=single_precision(trace, then_tf32=bool(products.any())),
            expected=together(rest, faster(replay, products, np.maximum(REACHED * ratio, PRODUCTS))),
            low=together(rest, faster(replay, products, np.maximum(REACHED_AT_LEAST * ratio, 1.0))),
            high=together(rest, faster(replay, products, most)),
            depends_on="whether the computation tolerates 32 bits, and matrix products TF32",
        )
