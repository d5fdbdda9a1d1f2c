"""Larger buffers between a pair of GPUs."""

from __future__ import annotations

from types import MappingProxyType

from ..catalogue import change
from ..nccl import NcclStart


@change
class NcclBuffer(NcclStart):
    """``NCCL_BUFFSIZE``: 16 MiB, four times the usual."""

    name = "nccl-buffer"
    title = "Use larger NCCL buffers (NCCL_BUFFSIZE)"
    environment = MappingProxyType({"NCCL_BUFFSIZE": "16777216"})
