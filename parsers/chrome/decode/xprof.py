"""What XProf (JAX, TensorFlow) writes about a GPU operation: one text such as "regs:16 grid:2,1,1 block:128,1,1"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_PART = re.compile(r"(\w+):([\w.,]+)")
_NONE = b""


@dataclass(frozen=True, slots=True)
class OperationDetails:
    """Registers of a thread, grid and block as JSON text, bytes copied; None or empty where not stated."""

    registers: str | None = None
    grid: bytes = _NONE
    block: bytes = _NONE
    size: str | None = None


NO_DETAILS = OperationDetails()


def details_of(kernel: Any, copy: Any) -> OperationDetails:
    """From the arguments ``kernel_details`` and ``memcpy_details``, whatever they hold."""
    if not isinstance(kernel, str) and not isinstance(copy, str):
        return NO_DETAILS
    launched = dict(_PART.findall(kernel)) if isinstance(kernel, str) else {}
    copied = dict(_PART.findall(copy)) if isinstance(copy, str) else {}
    return OperationDetails(
        launched.get("regs"),
        launched.get("grid", "").encode(),
        launched.get("block", "").encode(),
        copied.get("size"),
    )
