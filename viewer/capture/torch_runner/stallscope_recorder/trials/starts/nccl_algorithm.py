"""Collectives along a tree, which takes fewer hops than a ring: quicker for what is short."""

from __future__ import annotations

from types import MappingProxyType

from ..catalogue import change
from ..nccl import NcclStart


@change
class NcclTree(NcclStart):
    """``NCCL_ALGO=Tree``."""

    name = "nccl-tree"
    title = "Use NCCL's tree algorithm (NCCL_ALGO)"
    environment = MappingProxyType({"NCCL_ALGO": "Tree"})
