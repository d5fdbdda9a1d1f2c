"""How much faster than its ordinary FP32 units the tensor cores of a GPU are, by the peak rates of both."""

from __future__ import annotations

import re

from parsers.model import Device, Trace
from parsers.model.late import dataclass, regex
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.kernels.gpu_peaks import peaks_of

FIRST_CAPABILITY = 7  # tensor cores exist from compute capability 7.0 on (Kineto's plugin)
MIN_TF32 = 1.5  # times FP32: below it TF32 gives next to nothing, and only 16 bits are faster

_WITHOUT = regex(r"\bGTX 16", re.IGNORECASE)  # of compute capability 7.5, and without tensor cores
_GEFORCE = regex("GeForce", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TensorCoreRates:
    """Dense peak rates over that of FP32 on the ordinary units: in TF32, 0 where there is none, and in 16 bits."""

    tf32: float
    half: float

    @property
    def has_fast_tf32(self) -> bool:
        return self.tf32 >= MIN_TF32

    @property
    def easiest(self) -> float:
        """What the smallest change gives: TF32 where it is faster than FP32, otherwise 16 bits."""
        return self.tf32 if self.has_fast_tf32 else self.half


# Where the table of GPUs lacks one: of its generation, from NVIDIA's data sheets (V100 125/15.7, A100 156/19.5,
# H100 495/67) and white papers (GA102, AD102 and GB202: on GeForce the same chip is half as fast).
USUAL = TensorCoreRates(8.0, 16.0)
_AMD = TensorCoreRates(0.0, 8.0)
_BY_MAJOR = {
    7: TensorCoreRates(0.0, 8.0),
    8: USUAL,
    9: TensorCoreRates(7.4, 14.8),
    10: TensorCoreRates(15.0, 30.0),
}
_WORKSTATION = TensorCoreRates(2.0, 4.0)
_OF_GEFORCE = TensorCoreRates(1.0, 2.0)
_OF_GEFORCE_TURING = TensorCoreRates(0.0, 4.0)


def has_tensor_cores(device: Device) -> bool:
    """Whether a GPU has tensor cores, as far as it is known."""
    capability = device.compute_capability
    return not _WITHOUT.search(device.name) and (capability is None or capability[0] >= FIRST_CAPABILITY)


def tensor_core_rates(trace: Trace, device: int) -> TensorCoreRates:
    """The rates of one device: those that the table of GPUs states, otherwise those of its generation."""
    found = trace.devices[device]
    peaks = peaks_of(found.name)
    if peaks is not None and "fp16" in peaks.operations:
        rates = {name: round(rate / peaks.operations["fp32"], 1) for name, rate in peaks.operations.items()}
        return TensorCoreRates(rates.get("tf32", 0.0), rates["fp16"])
    if is_amd(trace):
        return _AMD
    capability = found.compute_capability
    if _GEFORCE.search(found.name):
        return _OF_GEFORCE_TURING if capability and capability < (8, 0) else _OF_GEFORCE
    if capability is None:
        return USUAL
    if capability[0] == 12 or (8, 0) < capability < (9, 0):
        return _WORKSTATION
    return _BY_MAJOR.get(capability[0], USUAL)
