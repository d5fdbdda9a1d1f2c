"""Work on positions that hold nothing but padding."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import MIN_NS, durations_times
from rules.fixes.forms.padded_texts import padded_texts
from rules.fixes.forms.written import costly_calls
from rules.remedies.padding import PAD_TO_LONGEST
from rules.replay.origins import called_operators
from rules.replay.replay import Replay

MIN_POWER = 0.7  # shorter texts fill a GPU less: at least, the time shrinks as this power of their length


@fix
class PadToLongest:
    id = "pad-to-longest"
    explanation = """
When it applies
    Ids of texts are padded (aten::pad) to at least 1.5 times the length that the longest of their batch has, and rows
    of a table are looked up by them. What has as many positions, up to the next batch, takes at least 5 % of the GPU's
    time. Shapes must be recorded.

What is changed in the replay
    All of that takes as much less time as there are fewer positions.

What makes it more or less
    How well shorter texts fill the GPU. Attention gains more, as its work grows with the square of the length, and
    batches of texts that are about as long gain more than this.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found, device = padded_texts(analysis), replay.device
        nodes, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        mine = nodes[device.launch]
        left = found.left[np.searchsorted(found.operators, called_operators(analysis)[device.launch[mine]])]
        shortest = np.minimum(MIN_NS / np.maximum(device.duration[mine], 1.0), 1.0)
        least, likely = np.ones(len(device)), np.ones(len(device))
        least[mine], likely[mine] = (np.maximum(left**power, shortest) for power in (MIN_POWER, 1.0))
        yield Proposal(
            title=(
                f"Pad texts to the longest of their batch: {percent(share)} of the GPU's time works on "
                f"{found.length:,} positions, of which {found.before:,} can hold anything"
            ),
            categories=(Category.RECOMPUTATION, Category.GPU_BOUND),
            culprit="padding",
            problem="Texts are padded far beyond the longest of their batch",
            remedy=PAD_TO_LONGEST,
            expected=durations_times(mine, likely),
            low=durations_times(mine, least),
            depends_on="how well shorter texts fill the GPU",
        )
