"""Memory of collectives that is given back as soon as they are waited for."""

from __future__ import annotations

from types import MappingProxyType

from ..catalogue import change
from ..nccl import NcclStart


@change
class NcclAvoidRecordStreams(NcclStart):
    """``TORCH_NCCL_AVOID_RECORD_STREAMS=1``."""

    name = "nccl-avoid-record-streams"
    title = "Free collective buffers early (TORCH_NCCL_AVOID_RECORD_STREAMS)"
    environment = MappingProxyType({"TORCH_NCCL_AVOID_RECORD_STREAMS": "1"})
