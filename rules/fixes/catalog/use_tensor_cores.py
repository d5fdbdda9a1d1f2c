"""Matrix products in single precision move to the tensor cores, as TF32 or in 16 bits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.events import of_kinds
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import faster, together, total
from rules.kernels.gpu_peaks import has_tensor_cores, tensor_core_rates
from rules.remedies.kernels import tensor_cores
from rules.replay.replay import Replay
from rules.terms import NEARLY_ALL

REACHED, REACHED_AT_LEAST = 0.8, 0.5  # of that ratio by real products: tensor cores wait for memory sooner
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
            low=faster(replay, single, max(rates.easiest * REACHED_AT_LEAST, 1.0)),
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
