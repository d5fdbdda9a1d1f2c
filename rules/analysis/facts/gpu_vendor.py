"""Whose GPU a recording is from: AMD's runtime and tools have other names for the same things."""

from __future__ import annotations

import re

from parsers.model import Trace

_AMD = re.compile(r"\bAMD\b|instinct|radeon|\bgfx\d", re.IGNORECASE)
_HIP = re.compile(r"hip[A-Z]\w+\Z")
_COUNTER = re.compile(r"(SQC?|GRBM|TCC|TCP|TA|TD|SPI|CPC|CPF)_[A-Z]")
_CUDA = re.compile(r"cu(?:da)?[A-Z]\w+\Z")


def is_amd(trace: Trace) -> bool:
    """By the names of its GPUs; where these are unknown, by its calls of HIP, or by the hardware's counters."""
    known = [device.name for device in trace.devices if device.name]
    if known:
        return any(_AMD.search(name) for name in known)
    if trace.kernels and any(map(_COUNTER.match, trace.kernels[0].metrics)):
        return True
    return any(map(_HIP.match, trace.strings)) and not any(map(_CUDA.match, trace.strings))
