"""The colour of a finding: that of the cause or kernel family it speaks of."""

from __future__ import annotations

from PySide6.QtGui import QColor

from rules.analysis.idle.causes import Cause
from rules.base import Category
from viewer.look.theme import Theme

_CAUSE = {
    Category.INPUT_BOUND: Cause.INPUT,
    Category.HOST_BOUND: Cause.HOST,
    Category.LAUNCH_BOUND: Cause.LAUNCH,
    Category.SYNCHRONIZATION: Cause.SYNCHRONIZATION,
    Category.ALLOCATOR: Cause.ALLOCATOR,
    Category.LATENCY_BOUND: Cause.HOST,
    Category.SMALL_GRID: Cause.LAUNCH,
    Category.TAIL_EFFECT: Cause.LAUNCH,
    Category.LOW_OCCUPANCY: Cause.INPUT,
    Category.BARRIER_STALL: Cause.SYNCHRONIZATION,
    Category.ATOMICS: Cause.SYNCHRONIZATION,
    Category.REGISTER_SPILL: Cause.ALLOCATOR,
    Category.LOCAL_MEMORY: Cause.ALLOCATOR,
}
_FAMILY = {
    Category.COPY_H2D: "copies",
    Category.COPY_D2H: "copies",
    Category.EXPOSED_COMMUNICATION: "communication",
    Category.COMMUNICATION_LATENCY: "communication",
    Category.STRAGGLER: "communication",
    Category.MEMORY_BOUND_KERNELS: "elementwise",
    Category.NO_TENSOR_CORES: "gemm",
    Category.GEMM_SHAPE: "gemm",
    Category.LAYOUT_CONVERSION: "elementwise",
    Category.GPU_BOUND: "gemm",
    Category.MEMORY_BOUND: "copies",
    Category.CACHE_MISSES: "copies",
    Category.UNCOALESCED_ACCESS: "copies",
    Category.BANK_CONFLICTS: "normalisation",
    Category.COMPUTE_BOUND: "gemm",
    Category.PIPE_SATURATED: "gemm",
    Category.FP64: "attention",
    Category.BALANCED: "attention",
    Category.DIVERGENCE: "optimizer",
    Category.IMBALANCE: "optimizer",
}


def color_of(category: Category, theme: Theme) -> QColor:
    """The colour of a category in this theme."""
    if category in _CAUSE:
        return theme.cause(_CAUSE[category])
    if category in _FAMILY:
        return theme.family(_FAMILY[category])
    return theme.family("other")


def color_of_part(key: str, theme: Theme) -> QColor:
    """The colour of a part of the budget, by the key of ``budget_parts``."""
    for cause in Cause:
        if cause.key == key:
            return theme.cause(cause)
    families = {"compute": "gemm", "communication": "communication", "copy": "copies"}
    return theme.family(families.get(key, "other"))
