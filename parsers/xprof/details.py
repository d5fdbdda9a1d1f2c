"""What XProf (JAX, TensorFlow) writes about a GPU operation: one text such as "regs:16 grid:2,1,1 block:128,1,1"."""

from __future__ import annotations

import re
from typing import Any

from parsers.model import CopyKind, EventKind
from parsers.model.attributes import MEMORY_KINDS
from parsers.model.late import dataclass, regex

_PART = regex(r"(?<!\w)(\w++):([\w.,]+)")
_NONE = b""
_COPY = regex(r"(?:cu|hip|async-)?(?:Memcpy|Copy)", re.IGNORECASE)
_FILL = regex(r"(?:cu|hip)?(?:Memset|Fill)", re.IGNORECASE)
# "%copy-done.2 = f32[5,8]{1,0:S(5)} copy-done((f32[5,8]{1,0:S(5)}, f32[5,8]{1,0}, u32[]) %copy-start.2)": space 5 of
# XLA is the host's memory, and the wait for a copy states its result first
_DONE = regex(r"%?[\w.-]+ = (.*?) copy-done\((.*)")
_OF_HOST = "S(5)"
_DIRECTION = regex(r"([HDP])(?:to|2)([HDP])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OperationDetails:
    """Registers of a thread, grid and block as JSON text, bytes copied and between what; empty where not stated."""

    registers: str | None = None
    grid: bytes = _NONE
    block: bytes = _NONE
    size: str | None = None
    source: int | None = None  # MemoryKind value
    target: int | None = None


NO_DETAILS = OperationDetails()


def details_of(kernel: Any, copy: Any) -> OperationDetails:
    """From the arguments ``kernel_details`` and ``memcpy_details``, whatever they hold."""
    if not isinstance(kernel, str) and not isinstance(copy, str):
        return NO_DETAILS
    launched = dict(_PART.findall(kernel)) if isinstance(kernel, str) else {}
    copied = dict(_PART.findall(copy)) if isinstance(copy, str) else {}
    source, target = (MEMORY_KINDS.get(copied.get(f"kind_{side}", "")) for side in ("src", "dst"))
    return OperationDetails(
        launched.get("regs"),
        launched.get("grid", "").encode(),
        launched.get("block", "").encode(),
        copied.get("size"),
        source.value if source else None,
        target.value if target else None,
    )


def kind_of(name: str) -> EventKind:
    """Whether an operation of this name is a copy, a fill or a kernel."""
    if _COPY.match(name):
        return EventKind.MEMCPY
    return EventKind.MEMSET if _FILL.match(name) else EventKind.KERNEL


def direction_of(name: str, instruction: str = "") -> CopyKind:
    """The direction of a copy such as "MemcpyD2H", or of the one that an HLO instruction waits for."""
    if done := _DONE.match(instruction):
        if _OF_HOST in done[1]:
            return CopyKind.D2H
        return CopyKind.H2D if _OF_HOST in done[2] else CopyKind.D2D
    found = _DIRECTION.search(name)
    return CopyKind.between(found[1], found[2]) if found else CopyKind.UNKNOWN
