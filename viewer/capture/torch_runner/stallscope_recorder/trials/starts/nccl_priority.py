"""Collectives that are scheduled before kernels that wait beside them."""

from __future__ import annotations

from types import MappingProxyType

from ..catalogue import change
from ..nccl import NcclStart


@change
class NcclPriority(NcclStart):
    """``TORCH_NCCL_HIGH_PRIORITY=1``."""

    name = "nccl-high-priority"
    title = "Run collectives on a high-priority stream (TORCH_NCCL_HIGH_PRIORITY)"
    environment = MappingProxyType({"TORCH_NCCL_HIGH_PRIORITY": "1"})
