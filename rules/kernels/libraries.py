"""Kernels of libraries, whose code their users do not change, and what these can do instead."""

from __future__ import annotations

import re

from rules.category import Category

_OF_LIBRARIES = re.compile(
    r"cublas|cudnn|cusparse|cusolver|cufft|nvjet_|\bat::native::|\bcub::|\bthrust::|xmma_|cutlass_\d\d_|"
    r"^(void )?(ampere|turing|volta|maxwell)_|\bgemv\w*_kernel|^Cijk_|miopen|rocblas|^__myl_"
)
_OF_RANDOM_NUMBERS = re.compile(
    r"\bdistribution_(elementwise|nullary)|\b(cu|hip|roc)rand_(init|gen)\w*|generate_seed_pseudo"
)
_INPUT = (
    "It fills a tensor with random numbers, most likely the input of what was to be measured: profile the kernel that "
    "matters (-k regex:NAME, or --launch-skip).",
)
_INSIDE_A_KERNEL = frozenset(
    {
        Category.LATENCY_BOUND,
        Category.UNCOALESCED_ACCESS,
        Category.BANK_CONFLICTS,
        Category.DIVERGENCE,
        Category.LOW_OCCUPANCY,
        Category.SMALL_GRID,
        Category.TAIL_EFFECT,
        Category.REGISTER_SPILL,
        Category.LOCAL_MEMORY,
        Category.ATOMICS,
        Category.BARRIER_STALL,
        Category.CACHE_MISSES,
        Category.IMBALANCE,
    }
)
_ADVICE = (
    "It is a library's kernel, so what it is given is what can change: more rows or problems in one call, sizes "
    "that are multiples of 8, 16-bit numbers.",
    "Let the library choose another one: its heuristics or autotuning (cublasLt, cudnn.benchmark), a newer version.",
)


def advice_for_libraries(name: str, category: Category) -> tuple[str, ...]:
    """What helps against a fault inside a library's kernel; empty for other kernels, and for other faults."""
    if _OF_RANDOM_NUMBERS.search(name):
        return _INPUT
    if category not in _INSIDE_A_KERNEL or _OF_LIBRARIES.search(name) is None:
        return ()
    return _ADVICE
