"""The protocol that sends 8 flagged bytes at a time in lines of 128: quicker for short messages."""

from __future__ import annotations

from types import MappingProxyType

from ..catalogue import change
from ..nccl import NcclStart


@change
class NcclLowLatency(NcclStart):
    """``NCCL_PROTO=LL128``."""

    name = "nccl-low-latency"
    title = "Use NCCL's low-latency protocol (NCCL_PROTO)"
    environment = MappingProxyType({"NCCL_PROTO": "LL128"})
