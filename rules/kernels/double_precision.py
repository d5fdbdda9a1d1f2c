"""Which GPUs have hardly any units for 64-bit floating point, by their compute capability."""

from __future__ import annotations

FEWER_UNITS = 32  # of FP32 for one of FP64, or more
# data-centre GPUs: half or a third as many units for FP64 as for FP32
_MANY = ((3, 5), (3, 7), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0))


def has_few_units(compute_capability: tuple[int, int] | None) -> bool:
    """Whether a GPU of NVIDIA has at most one unit for FP64 for ``FEWER_UNITS`` of FP32; False where unknown."""
    return compute_capability is not None and compute_capability not in _MANY
