"""The colours that stand for something: kernel families, causes of idle time, parts of a budget, regions; no Qt.

Window, pictures and pages take them from here, so that a hue means the same wherever it is seen.
"""

from __future__ import annotations

from rules.analysis.idle.causes import Cause

GREY = "#8b94a7"
FAMILIES = {
    "gemm": "#4c8dff",
    "convolution": "#6d7ff0",
    "attention": "#36b3e6",
    "normalisation": "#4fc3a1",
    "elementwise": "#7aa6c8",
    "reduction": "#8fb0a3",
    "softmax": "#5ec8d0",
    "embedding": "#9cb86a",
    "cast": "#6f9fb0",
    "layout": "#c9a06b",
    "sort": "#b5a45c",
    "random": "#8fa3d9",
    "compiled": "#6fb3e0",
    "optimizer": "#a98bd9",
    "communication": "#c86fc9",
    "copies": "#3aa99f",
    "other": GREY,
}
FAMILY_ALIASES = {
    "normalization": "normalisation",
    "norm": "normalisation",
    "copy": "copies",
    "memcpy": "copies",
    "memset": "copies",
    "conv": "convolution",
    "pointwise": "elementwise",
    "nccl": "communication",
    "optimiser": "optimizer",
    "matrix product": "gemm",
    "memory copy": "copies",
    "copy or cast": "cast",
    "layout conversion": "layout",
    "embedding, gather, scatter": "embedding",
    "sort and select": "sort",
    "random numbers": "random",
    "compiled (triton)": "compiled",
}
CAUSES = {
    Cause.LAUNCH: "#e9b44c",
    Cause.INPUT: "#f08a24",
    Cause.HOST: "#e4572e",
    Cause.SYNCHRONIZATION: "#d64550",
    Cause.ALLOCATOR: "#b0713a",
    Cause.DEPENDENCY: "#7c8396",
    Cause.UNKNOWN: "#a3abbd",
    Cause.NEIGHBOURS: "#c86fc9",
}
REGIONS = {
    "forward": "#4c8dff",
    "backward": "#8d80ee",
    "optimizer": "#a98bd9",
    "loss": "#5ec8d0",
    "input": "#f08a24",
    "communication": "#c86fc9",
    "other": GREY,
}
SERIES = (
    "#4c8dff", "#e9b44c", "#4fc3a1", "#c86fc9", "#36b3e6", "#f08a24", "#9b8cf0", "#9cb86a", "#d97b8c",
    "#8b94a7",
)  # fmt: skip
STEP_ON_DARK, STEP_ON_LIGHT = "#3a4150", "#cfd6e2"
SEVERITIES = {"high": "#e4572e", "medium": "#e9b44c", "low": "#5b9dff", "info": GREY}
PARTS = {"compute": "gemm", "communication": "communication", "copy": "copies"}  # of a budget: their families
HATCHED = frozenset({"dependency", "unknown", "residual"})  # parts that nobody can act on


def part(key: str) -> str:
    """The colour of a part of the budget, by the key of ``budget_parts``."""
    cause = next((cause for cause in Cause if cause.key == key), None)
    return CAUSES[cause] if cause is not None else FAMILIES[PARTS.get(key, "other")]


def of_family(name: str) -> str:
    """The colour of a kernel family; grey for one that is not known."""
    key = name.lower()
    return FAMILIES.get(FAMILY_ALIASES.get(key, key), GREY)
