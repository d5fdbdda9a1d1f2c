"""Numbers of fewer bits: single precision on tensor cores, and 64-bit numbers as 32-bit ones."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace, derived
from parsers.model.arrays import per_value
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family, is_depthwise, is_product_with_a_vector
from rules.analysis.names.host_language import is_python
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import faster, together, total
from rules.kernels.factorisations import MEANT, factorises
from rules.kernels.gpu_peaks import HALF_THE_BYTES, has_tensor_cores, peaks_of, tensor_core_rates
from rules.remedies.kernels import single_precision, tensor_cores
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of
from rules.terms import NEARLY_ALL

REACHED, TF32_AT_LEAST = (0.8, 0.5)  # of that ratio by real products: tensor cores wait for memory sooner
NOTEWORTHY = 0.05  # of the GPU's time, in kernels that only move data
# of the GPU's time, in products or in layers that only networks have: without these it is a simulation or statistics,
# whose numbers are not kept in 16 bits
OF_A_NETWORK = 0.1
IN_16_BITS = 0.5  # of the time of kernels that move memory: tensors have half the size


@fix
class UseTensorCores:
    id = "use-tensor-cores"
    switches = ("tf32", "autocast-bf16", "autocast-fp16")
    explanation = """
When it applies
    Matrix products or convolutions run on the FP32 units of a GPU that has tensor cores.

What is changed in the replay
    They take the share of time that tensor cores would need: 0.8 of the ratio of the peak rates, with TF32 for
    training, where it is faster than FP32 on this GPU, and 16 bits where nothing is trained. In 16 bits all kernels
    that move memory take half their time, if it is a network: products, normalisation, softmax and attention take at
    least a tenth of the GPU's time.

What makes it more or less
    TF32 keeps every tensor as it is; 16 bits double the rate and halve the bytes that all other kernels move. Small
    or memory-bound products gain the least.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        gpu = int(device.device[0])
        if not has_tensor_cores(trace.devices[gpu]):
            return
        names = trace.events.name[device.members]
        families, classes = analysis.family_of_string, analysis.classes
        plain = np.array(
            [each.tensor_core is False and each.dtype in ("fp32", None) for each in classes], bool
        )
        single = plain[names] & of_kinds(families[names], Family.GEMM, Family.CONVOLUTION)
        if not single.any():
            return
        attention = (families[names] == Family.ATTENTION) & np.array(
            [each.dtype == "fp32" for each in classes], bool
        )[names]
        rates = tensor_core_rates(trace, gpu)
        whole = max(total(replay, np.ones(len(names), bool)), 1.0)
        layers = of_kinds(families[names], *_OF_NETWORKS)
        network = total(replay, layers) >= OF_A_NETWORK * whole
        moving = of_kinds(families[names], *_MOVING) & network
        share = total(replay, single) / whole
        easiest = faster(replay, single | attention, max(rates.easiest * REACHED, 1.0))
        halves = faster(replay, moving, 1 / IN_16_BITS)
        in_16_bits = together(faster(replay, single | attention, max(rates.half * REACHED, 1.0)), halves)
        most = together(faster(replay, single | attention, rates.half), halves)
        training = is_training(analysis)
        moved = 0.0 if training else total(replay, moving) / whole
        mostly_moves = moved > share  # then 16 bits give more than faster products do
        also = f", and 16 bits halve the data moved in {percent(moved)} of it" if moved >= NOTEWORTHY else ""
        yield Proposal(
            title=f"Compute in 16 bits: that halves the data moved in {percent(moved)} of the GPU's time"
            if mostly_moves
            else f"Use the tensor cores: {percent(share)} of the GPU's time is single-precision products{also}",
            problem="Tensors are kept in single precision" if mostly_moves else "",
            categories=(Category.NO_TENSOR_CORES,),
            culprit=trace.name(int(device.members[np.flatnonzero(single)[0]])),
            remedy=tensor_cores(
                trace,
                gpu,
                products=bool((single & (families[names] == Family.GEMM)).any()),
                convolutions=bool((single & (families[names] == Family.CONVOLUTION)).any()),
                halves=mostly_moves,
                tf32=rates.has_fast_tf32,
            ),
            expected=easiest if training else in_16_bits,
            low=faster(replay, single, max(rates.easiest * TF32_AT_LEAST, 1.0)),
            high=None if training and share < NEARLY_ALL else most,
            depends_on="whether the model tolerates 16 bits or only TF32"
            if rates.has_fast_tf32
            else "whether the model tolerates 16 bits",
        )


_OF_NETWORKS = (Family.GEMM, Family.CONVOLUTION, Family.ATTENTION, Family.NORMALISATION, Family.SOFTMAX)
_MOVING = (
    Family.ELEMENTWISE,
    Family.COPY_CAST,
    Family.NORMALISATION,
    Family.SOFTMAX,
    Family.REDUCTION,
    Family.EMBEDDING,
)


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
SINGLE_AT_LEAST = 0.4  # of a ratio of peak rates by real products
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
            faster(replay, products, np.maximum(SINGLE_AT_LEAST * ratio, 1.0)),
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
