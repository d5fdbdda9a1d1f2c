"""Pieces that pass through a network one by one, such as the tiles of a picture, pass through it together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.names.host_language import is_python
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.loops.alike import number_of
from rules.fixes.loops.filled import filled, joined
from rules.fixes.loops.pieces import pieces_of
from rules.remedies.launching import PIECES_TOGETHER
from rules.replay.replay import Replay

AT_LEAST = 4  # pieces: so many fit into memory together


@fix
class JoinPieces:
    """A network that is given a large input, or a large sample, in pieces."""

    id = "join-pieces"
    explanation = """
When it applies
    In a step of a Python program without a backward pass, four or more passes make nine tenths of the same calls, at
    least 16 each, and each begins with a slice that goes into a convolution: it has as many dimensions and channels as
    what it is sliced from, and at most half of the elements. The recording must have shapes.

What is changed in the replay
    The CPU runs the first pass only, picks the other pieces, and still waits for results where it reads them. The GPU
    work of the other passes remains as far as its blocks fill the GPU, without the 1.5 us that each kernel takes to
    start. At least, every fourth pass remains.

What makes it more or less
    Whether the memory has room for more pieces at once. Pieces that fill the GPU gain nothing.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if not is_python(analysis.trace) or (autograd_functions(analysis) >= 0).any():
            return
        steps = list(pieces_of(analysis, replay))
        if not steps:
            return
        later, most_of = np.zeros(len(replay.host), bool), np.zeros(len(replay.host), bool)
        for each in steps:
            later[each.starts[0] : each.end] = True
            ends = np.append(each.starts[1:], each.end)
            for begin, end in zip(each.starts[::AT_LEAST], ends[::AT_LEAST], strict=True):
                most_of[begin:end] = True
            most_of[each.starts] = True
            later[each.starts[0] : each.starts[1]] = False
            later[each.starts] = False
        later &= replay.waits.target < 0
        fills = filled(replay)
        count = number_of(steps)
        yield Proposal(
            title=f"Run the model on {count} pieces at once: they pass through it one by one",
            categories=(Category.LAUNCH_BOUND,),
            culprit="pieces one by one",
            problem=f"{count} pieces pass through the model one by one",
            remedy=PIECES_TOGETHER,
            expected=joined(replay, later, fills),
            low=joined(replay, later & ~most_of, fills),
            depends_on="how many pieces fit into memory together, and whether none needs the one before",
        )
