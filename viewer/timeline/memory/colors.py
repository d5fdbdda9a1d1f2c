"""The colours of what memory is used for, in a window as on a page."""

from __future__ import annotations

from rules.memory.kinds import Kind
from viewer.appearance.lane_colors import C, LaneColors

_FAMILIES = {
    Kind.PARAMETERS: "gemm",
    Kind.OPTIMIZER: "optimizer",
    Kind.COMMUNICATION: "communication",
    Kind.GRADIENTS: "attention",
    Kind.ACTIVATIONS: "normalisation",
    Kind.INPUTS: "copies",
}
_PLAIN = {Kind.TEMPORARIES: "#e9b44c", Kind.KEPT: "#e4572e", Kind.OLDER: "#a9b1c2"}


def color_of(kind: Kind, colors: LaneColors[C]) -> C:
    """The colour of what memory is used for."""
    if kind in _PLAIN:
        return colors.plain(_PLAIN[kind])
    return colors.family(_FAMILIES.get(kind, "other"))
