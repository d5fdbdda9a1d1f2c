"""A caching allocator whose segments grow instead of being cut."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import Optional

from ..catalogue import START, Change, change
from ..program import NO_GPU, Program

_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


@change
class CudaAllocConf(Change):
    """``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``."""

    name = "expandable-segments"
    title = "Use expandable memory segments (expandable_segments)"
    level = START
    usual = False
    environment = MappingProxyType({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})

    def can(self, program: Program) -> Optional[str]:
        if program.device != "cuda":
            return NO_GPU
        set_by_user = next((name for name in _NAMES if os.environ.get(name)), None)
        return "{} is already set".format(set_by_user) if set_by_user else None
