"""Peak rates of known GPUs, from the table that the program ships: which units have how many of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache

import resources
from parsers.model import Device, Trace
from parsers.model.late import dataclass, regex
from rules.analysis.gpu.gpu_vendor import is_amd

HALF_THE_BYTES = 2.0  # what memory limits becomes this much faster with numbers of half the size

PRECISIONS = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
SHOWN = {
    "fp64": "FP64",
    "fp64_tensor": "FP64 tensor",
    "fp32": "FP32",
    "tf32": "TF32 tensor",
    "fp16": "FP16 tensor",
    "bf16": "BF16 tensor",
    "fp8": "FP8 tensor",
    "int8": "INT8 tensor",
}

# Bytes/s in one direction: 8, 16 and 32 GT/s on 16 lanes, 128 of 130 bits data (PCI-SIG); half of NVIDIA's 900 GB/s.
LINKS = {"PCIe 3 x16": 15.75e9, "PCIe 4 x16": 31.5e9, "PCIe 5 x16": 63.0e9, "NVLink-C2C": 450e9}


@dataclass(frozen=True, slots=True)
class GpuPeaks:
    """One GPU: DRAM bandwidth in bytes/s, operations/s for each precision it supports, and where that is stated.

    ``link`` connects it to the host; empty where that depends on the machine.
    """

    name: str
    bandwidth: float
    operations: Mapping[str, float]
    source: str
    link: str = ""

    @property
    def link_bandwidth(self) -> float:
        """Bytes/s to or from the host at most; 0 where the link is not known."""
        return LINKS.get(self.link, 0.0)


@lru_cache(maxsize=1)
def known_gpus() -> tuple[tuple[re.Pattern[str], GpuPeaks], ...]:
    """The table, in the order in which names are tried."""
    rows = json.loads(resources.path("gpus.json").read_text("utf-8"))["gpus"]
    return tuple(
        (
            regex(row["pattern"], re.IGNORECASE),  # most are never tried
            GpuPeaks(
                name=row["name"],
                bandwidth=row["bandwidth"] * 1e9,
                operations={name: row[name] * 1e12 for name in PRECISIONS if name in row},
                source=row["source"],
                link=row.get("link", ""),
            ),
        )
        for row in rows
    )


def peaks_of(device_name: str | None) -> GpuPeaks | None:
    """The peaks of a GPU by the name that recordings state; None when it is not in the table."""
    if not device_name:
        return None
    return next((peaks for pattern, peaks in known_gpus() if pattern.search(device_name)), None)


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


FEWER_UNITS = 32  # of FP32 for one of FP64, or more
# data-centre GPUs: half or a third as many units for FP64 as for FP32
_MANY = ((3, 5), (3, 7), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0))

DOUBLE = regex(r"\bdouble\b")  # in a kernel's name: it takes 64-bit numbers


def has_few_units(compute_capability: tuple[int, int] | None) -> bool:
    """Whether a GPU of NVIDIA has at most one unit for FP64 for ``FEWER_UNITS`` of FP32; False where unknown."""
    return compute_capability is not None and compute_capability not in _MANY
