"""Copies that turn images from one memory order into the other and back, by kernels whose names do not say so."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, Attribute, derived
from parsers.model.arrays import in_both, per_value
from parsers.model.late import regex
from rules.analysis.analysis import Analysis
from rules.fixes.backward import autograd_functions
from rules.kernels.recorded_shapes import inputs_in
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of

IMAGES = (4, 5)  # dimensions of a batch of pictures, or of volumes
_CONVOLUTIONS = regex(r"aten::(_?convolution|conv[23]d|conv_transpose[23]d|convolution_backward)$")


@derived
def turned_images(analysis: Analysis) -> BOOL:
    """The host nodes that launch copies of images, which convolutions make to have them in their own order.

    One inside a convolution alone may be of a part of the channels. So images of the same sides must also be copied
    outside of one, in the forward pass: for a layer of another order, or by a call of contiguous(). Those count, and
    all that convolutions copy in that program.
    """
    around = surroundings_of(analysis)
    copy = around.around("aten::copy_".__eq__)
    ordered = (copy >= 0) & around.inside("aten::contiguous".__eq__)
    nodes = np.flatnonzero(ordered)
    found = np.zeros(len(replay_of(analysis).host), bool)
    if not len(nodes):
        return found
    sides = _sides(analysis, copy[nodes])
    convolves = around.inside(_CONVOLUTIONS.match)[nodes]
    forward = (autograd_functions(analysis) < 0)[nodes]
    known = sides >= 0
    turned = in_both(sides[known & forward & convolves], sides[known & forward & ~convolves])
    if len(turned):
        found[nodes[known & convolves | forward & np.isin(sides, turned)]] = True
    return found


def _sides(analysis: Analysis, copies: I64) -> I64:
    """A number for each copy: the same for images of the same sides in any order; -1 for what is no image."""
    trace = analysis.trace
    seen: dict[tuple[int, ...], int] = {}

    def number(dims: int) -> int:
        shape: list[int] = next(iter(inputs_in(trace.strings[dims])), []) if dims >= 0 else []
        return seen.setdefault(tuple(sorted(shape)), len(seen)) if len(shape) in IMAGES else -1

    return np.asarray(per_value(trace.attribute(Attribute.INPUT_DIMS, copies, -1), number))
