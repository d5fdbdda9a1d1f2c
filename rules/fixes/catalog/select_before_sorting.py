"""Samplers sort the best candidates only, and not the whole vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.events import of_kinds
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import is_python
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import durations_times, share_of
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

MIN_SHARE = 0.1  # of the GPU's time is between a sort and the next matrix product
LEFT = 0.1  # of it: what works on the best candidates
LEFT_OF_MANY = 0.3  # where many are kept
_PRODUCTS = (Family.GEMM, Family.TRITON, Family.ATTENTION, Family.CONVOLUTION)

_CODE = """best = logits.topk(256)                                # of 128,000
probabilities = best.values.softmax(dim=-1)
kept = probabilities.cumsum(dim=-1) - probabilities < top_p
drawn = torch.multinomial(probabilities * kept, 1)
tokens = best.indices.gather(1, drawn)"""


@fix
class SelectBeforeSorting:
    """Sorting and adding up whole rows, as top-p sampling is written down."""

    id = "select-before-sorting"
    explanation = """
When it applies
    Nothing is trained, and after a matrix product rows are sorted and then accumulated (a cumulative sum). From the
    sort to the next product takes at least a tenth of the GPU's time.

What is changed in the replay
    A tenth of everything from a sort to the next product remains, or three tenths where many candidates are kept.

What makes it more or less
    How many candidates are kept, and whether a fused kernel for sampling does the rest.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        if not is_python(trace) or is_training(analysis):
            return
        family = analysis.family_of_string[trace.events.name[device.event]]
        order = np.lexsort((device.start, device.stream))
        product = of_kinds(family, *_PRODUCTS)[order]
        sorts = (family == Family.SORT)[order]
        adds_up = named(trace, device.event, _adds_up)[order]
        stretch = np.cumsum(product | np.append(True, np.diff(device.stream[order]) != 0))
        place = np.arange(len(order))
        first = np.full(int(stretch[-1]) + 1, len(order))
        np.minimum.at(first, stretch[sorts], place[sorts])
        behind = (place >= first[stretch]) & ~product
        behind &= (np.bincount(stretch, adds_up & behind) > 0)[stretch]
        found, sorting = np.zeros(len(order), bool), np.zeros(len(order), bool)
        found[order], sorting[order] = behind, behind & sorts
        share = share_of(replay, found)
        if share < MIN_SHARE:
            return
        yield Proposal(
            title=(
                f"Pick the best candidates before sorting: {percent(share)} of the GPU's time sorts whole rows and "
                "adds them up"
            ),
            categories=(Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit=trace.name(int(device.event[np.flatnonzero(sorting)[0]])),
            problem="Whole rows are sorted where a few candidates would do",
            remedy=remedy(
                for_pytorch(
                    "torch.topk finds a few hundred candidates in one pass; softmax, cumsum and multinomial "
                    "then work on these."
                ),
                "A fused sampling kernel (FlashInfer, vLLM) needs no sort at all.",
                code=for_pytorch(_CODE),
            ),
            expected=durations_times(found, LEFT),
            low=durations_times(found, LEFT_OF_MANY),
            depends_on="how many candidates are kept",
        )


def _adds_up(name: str) -> bool:
    return "scan_innermost_dim" in name or "scan_outer_dim" in name or "DeviceScan" in name
