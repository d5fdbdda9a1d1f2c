"""Kernels of one report that by their names are versions of the same: the fastest shows what the others could reach."""

from __future__ import annotations

import re

from parsers.model import KernelProfile, Trace
from parsers.model.late import regex
from parsers.model.names.kernels import kernel_name
from rules.kernels.launch_groups import KernelGroup, kernel_groups

MUCH_FASTER = 1.2
_VERSION = regex(
    r"(?<![a-z])(naive|baseline|base|simple|slow|fast|faster|opt|optimi[sz]ed|improved|better|new|old|ref|reference|"
    r"shared|smem|tiled|coalesced|vectori[sz]ed|unrolled|v|ver|version|kernel|gpu|cuda|final)(?![a-z])"
)
_WORDS = regex(r"[a-z]+")
# of the source, as compilers of loops append it
_LINE = regex(r"(?<![a-z])l\d{2,}(?![a-z\d])|(?<= )\d+(?= gpu\b)")


def work_of(name: str) -> tuple[str, ...]:
    """The words of a kernel's name without those that tell versions apart; empty where nothing else is left.

    Kernels that compilers make of loops bear the line of their loop: another line is other work.
    """
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", kernel_name(name)).lower().replace("_", " ")
    found = _WORDS.findall(_VERSION.sub(" ", words))
    return (*found, *_LINE.findall(words)) if found else ()


def faster_version(trace: Trace, kernel: KernelProfile) -> tuple[KernelGroup, float] | None:
    """The fastest launches that do the same by their name, and how many times faster one is; None without any.

    Only of kernels with other names: the same kernel with another grid may have had less to do.
    """
    mine, took = work_of(kernel.name), kernel.duration_ns or 0.0
    if not mine or not took:
        return None
    found = [
        (group, took / other)
        for group in kernel_groups(trace.kernels)
        if group.name != kernel.name
        and work_of(group.name) == mine
        and (other := group.representative.duration_ns or 0.0) > 0
    ]
    fastest = max(found, key=lambda each: each[1], default=None)
    return fastest if fastest is not None and fastest[1] >= MUCH_FASTER else None
