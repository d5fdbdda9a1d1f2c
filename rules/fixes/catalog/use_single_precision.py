"""64-bit numbers of a Python program become 32-bit ones."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace, derived
from parsers.model.arrays import per_value
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family, is_depthwise, is_product_with_a_vector
from rules.analysis.names.host_language import is_python
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import faster, together, total
from rules.kernels.factorisations import MEANT, factorises
from rules.kernels.gpu_peaks import HALF_THE_BYTES, peaks_of
from rules.remedies.kernels import single_precision
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of

_DOUBLE = "double"
_NARROWER = frozenset({"float", "c10::BFloat16", "c10::Half"})


@dataclass(frozen=True, slots=True, eq=False)
class DoublePrecision:
    """``begins``: the first operator of a step that takes 64-bit tensors beside narrower ones, -1 where none does.

    ``converts``: which recorded operations of the replay only convert between both.
    """

    begins: int
    converts: BOOL


@derived
def double_precision(analysis: Analysis) -> DoublePrecision:
    """By the types that operators were handed, which profilers note with their shapes."""
    trace, replay = analysis.trace, replay_of(analysis)
    device, operator = replay.device, surroundings_of(analysis).operator
    mixes = _mixes(trace, operator)
    copies = np.zeros(len(operator), bool)
    copies[mixes] = named(trace, operator[mixes], "aten::copy_".__eq__)
    return DoublePrecision(_first(analysis, mixes), copies[device.launch[device.member_of]])


def _first(analysis: Analysis, mixes: BOOL) -> int:
    """What the program called, in the middle one of the steps."""
    replay = replay_of(analysis)
    mine = np.flatnonzero(mixes & (replay.host.step == replay.steps // 2))
    mine = mine if len(mine) else np.flatnonzero(mixes)
    if not len(mine):
        return -1
    first = int(mine[np.argmin(replay.host.start[mine])])
    around = surroundings_of(analysis)
    called = int(around.whole_operator[first])
    return called if called >= 0 else int(around.operator[first])


def _mixes(trace: Trace, operators: I64) -> BOOL:
    """Which of these, -1 for none, are handed tensors of 64-bit numbers and of narrower ones.

    A single number without dimensions widens nothing.
    """
    found = np.zeros(len(operators), bool)
    known = operators >= 0
    columns = (Attribute.INPUT_TYPES, Attribute.INPUT_DIMS)
    stated = np.stack([trace.attribute(each, operators[known], -1) for each in columns], axis=1)

    def both(row: list[int]) -> bool:
        if min(row) < 0:
            return False
        types, dims = (json.loads(trace.strings[each]) for each in row)
        kinds = {kind for kind, sizes in zip(types, dims, strict=False) if sizes and isinstance(kind, str)}
        return _DOUBLE in kinds and bool(kinds & _NARROWER)

    found[known] = per_value(stated, both, bool)
    return found


# Peak rates of H100 over its FP64 units, for a GPU whose rates are not known: the tensor cores' FP64, FP32, TF32.
USUAL_RATES = {"fp64": 1.0, "fp64_tensor": 2.0, "fp32": 2.0, "tf32": 14.8}
REACHED, REACHED_AT_LEAST = 0.8, 0.4  # of a ratio of peak rates by real products
PRODUCTS = 1.5  # times as fast at least, most likely: between half the bytes and rates that are alike
# times as fast: exponentials of 64 bits are computed in software. One softmax over 12,288 numbers, both ways
SOFTMAX = 3.0
# times as fast, where each channel has a filter of its own: their kernels count places more than they multiply
DEPTHWISE = 1.2
GONE = 1e3  # times as fast: what only converts between both is not needed; the calls stay


@fix
class UseSinglePrecision:
    id = "use-single-precision"
    explanation = f"""
When it applies
    A Python program computes with 64-bit numbers, usually because numpy creates them by default.

What is changed in the replay
    Convolutions take the time that TF32 would need, which libraries use for them by default, and matrix products that
    of FP32, at 0.8 of the ratio of the peak rates, or two thirds of their time where that is less. Convolutions with a
    filter for each channel are {DEPTHWISE} times as fast, and a softmax {SOFTMAX:.0f} times; all other kernels, and
    products with a vector, take half their time. Copies that convert between both kinds of numbers are gone, where
    types were recorded.

What makes it more or less
    Whether the computation tolerates 32 bits at all: factorisations and triangular solves often do not. Where these
    take at least {percent(MEANT)} of this time, 64 bits are usually meant: the least is nothing, and other fixes come
    first. Matrix products may use TF32 too, which must be allowed.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        names, classes = trace.events.name[device.members], analysis.classes
        numbers = double_precision(analysis)
        double = np.array([each.dtype == "fp64" for each in classes], bool)[names] & ~numbers.converts
        whole = max(total(replay, np.ones(len(names), bool)), 1.0)
        share = total(replay, double | numbers.converts) / whole
        if share < MIN_GPU_SHARE or not double.any() or not is_python(trace):
            return
        peaks = peaks_of(trace.devices[int(device.device[0])].name)
        rates = peaks.operations if peaks and "fp64" in peaks.operations else USUAL_RATES
        families = analysis.family_of_string[names]
        on_tensor_cores = np.array([each.tensor_core is True for each in classes], bool)[names]
        recorded = np.where(on_tensor_cores, rates.get("fp64_tensor", rates["fp64"]), rates["fp64"])
        single, tf32 = rates["fp32"], rates.get("tf32", rates["fp32"])
        vectors = named(trace, device.members, is_product_with_a_vector)
        depthwise = double & named(trace, device.members, is_depthwise)
        convolution = double & (families == Family.CONVOLUTION) & ~depthwise
        products = convolution | (double & (families == Family.GEMM) & ~vectors)
        others = double & ~products & ~depthwise
        softmax = others & (families == Family.SOFTMAX)
        factorising = total(replay, double & factorises(trace, device.members))
        meant = factorising >= MEANT * total(replay, double)
        moves = total(replay, others) >= MIN_GPU_SHARE * whole
        ratio = np.where(convolution, tf32, single) / recorded
        most = np.maximum(tf32 / recorded, HALF_THE_BYTES)
        rest = together(
            faster(replay, others, np.where(softmax, SOFTMAX, HALF_THE_BYTES)),
            faster(replay, numbers.converts, GONE),
        )
        least = together(
            faster(replay, others, HALF_THE_BYTES),
            faster(replay, products, np.maximum(REACHED_AT_LEAST * ratio, 1.0)),
        )
        yield Proposal(
            title=f"Check whether 32-bit numbers suffice: {percent(factorising / whole)} of the GPU's time factorises "
            "matrices in double precision"
            if meant
            else f"Use 32-bit numbers: {percent(share)} of the GPU's time computes in double precision",
            categories=(
                Category.FP64,
                Category.SLOW_OPERATOR,
                *((Category.MEMORY_BOUND_KERNELS,) if moves else ()),
                *((Category.NO_TENSOR_CORES,) if (products & ~on_tensor_cores).any() else ()),
            ),
            culprit=trace.name(int(device.members[np.flatnonzero(double)[0]])),
            remedy=single_precision(
                trace, then_tf32=bool(products.any()), begins=numbers.begins, factorises=meant
            ),
            expected=together(
                rest,
                faster(replay, products, np.maximum(REACHED * ratio, PRODUCTS)),
                faster(replay, depthwise, DEPTHWISE),
            ),
            low=together() if meant else least,
            high=together(rest, faster(replay, products, most), faster(replay, depthwise, HALF_THE_BYTES)),
            depends_on="whether 64 bits are needed, as factorisations of matrices often do"
            if meant
            else "whether the computation tolerates 32 bits, and matrix products TF32",
            broad=meant,
        )
