"""More channels, and so more of the GPU, for collectives of much data."""

from __future__ import annotations

from types import MappingProxyType

from ..catalogue import change
from ..nccl import NcclStart


@change
class NcclChannels(NcclStart):
    """``NCCL_MIN_NCHANNELS=16``."""

    name = "nccl-channels"
    title = "Use more NCCL channels (NCCL_MIN_NCHANNELS)"
    environment = MappingProxyType({"NCCL_MIN_NCHANNELS": "16"})
