"""Whose GPU a recording is from: AMD's runtime has other names for the same things, other accelerators lack some."""

from __future__ import annotations

import re
from enum import StrEnum

from parsers.model import Device, EventKind, Trace, derived
from parsers.model.late import regex
from parsers.model.names.per_name import distinct

_AMD = regex(r"\bAMD\b|instinct|radeon|\bgfx\d", re.IGNORECASE)
_NVIDIA = regex(r"nvidia|tesla|geforce|quadro|\b[ABHLV]\d{2,3}\b", re.IGNORECASE)
_OTHERS = regex(r"\bNPU\b|\bTPU\b|gaudi|\bMTIA\b", re.IGNORECASE)
_HIP = regex(r"hip[A-Z]\w+\Z")
_COUNTER = regex(r"(SQC?|GRBM|TCC|TCP|TA|TD|SPI|CPC|CPF)_[A-Z]")
_AMD_RECORDERS = ("amd-smi", "rocm", "roctracer", "rocprof")
_OTHER_RECORDERS = ("unitrace", "xpu-smi", "npu-smi")
_CUDA = regex(r"cu(?:da)?[A-Z]\w+\Z")


@derived
def is_amd(trace: Trace) -> bool:
    """By the names of its GPUs; where these are unknown, by its calls of HIP, its counters, or who recorded it."""
    known = [device.name for device in trace.devices if device.name]
    if known:
        return any(_AMD.search(name) for name in known)
    if trace.kernels and any(map(_COUNTER.match, trace.kernels[0].metrics)):
        return True
    if any(each.producer.startswith(_AMD_RECORDERS) for each in trace.inputs):
        return True
    return any(map(_HIP.match, trace.strings)) and not any(map(_CUDA.match, trace.strings))


class Vendor(StrEnum):
    """Who made the GPU, as far as advice differs."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"
    OTHER = "another"  # accelerators that are no GPUs of these: neither CUDA nor HIP runs on them


def vendor_of(trace: Trace) -> Vendor:
    """NVIDIA where nothing says otherwise."""
    if is_amd(trace):
        return Vendor.AMD
    return Vendor.NVIDIA if has_graphs(trace) else Vendor.OTHER


def is_another_kind(device: Device) -> bool:
    """Whether a device is an accelerator but no GPU, by its name."""
    return _OTHERS.search(device.name) is not None


@derived
def has_graphs(trace: Trace) -> bool:
    """Whether launches can be captured as a graph of CUDA or HIP: by the GPU's name, else by the recorded calls."""
    if is_amd(trace) or any(_NVIDIA.search(device.name) for device in trace.devices):
        return True
    if any(map(is_another_kind, trace.devices)) or any(
        each.producer.startswith(_OTHER_RECORDERS) for each in trace.inputs
    ):
        return False
    names = distinct(trace.events.name[trace.events.of_kind(EventKind.API)])
    calls = {trace.strings[name] for name in names.tolist()}
    return not calls or any(_HIP.match(call) or _CUDA.match(call) for call in calls)
