"""Results are written into a buffer that is large enough, instead of being concatenated anew each time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import durations_times
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

MIN_SHARE = 0.1  # of the GPU's time: less are the concatenations that a model needs
LEFT = 0.1  # of their time: what is new is still written

_CODE = """cache = torch.empty(batch, heads, longest, width, device="cuda", dtype=keys.dtype)   # once

cache[:, :, place] = new_keys                      # each step writes what is new
# instead of cache = torch.cat((cache, new_keys), dim=2)"""


@fix
class WriteInPlace:
    """Kernels that concatenate."""

    id = "write-in-place"
    explanation = """
When it applies
    More than a tenth of the GPU's time copies tensors into a longer one, as a cache that grows in each step does.

What is changed in the replay
    These kernels take a tenth of their time.

What makes it more or less
    How much of the concatenated data is new in each step.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device = replay.device
        joining = named(analysis.trace, device.event, lambda name: "CatArrayBatchedCopy" in name)
        share = float(device.duration[joining].sum() / max(device.duration[device.meeting < 0].sum(), 1.0))
        if share < MIN_SHARE:
            return
        yield Proposal(
            title=f"Write into one buffer instead of concatenating: {percent(share)} of the GPU's time copies old data",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.ALLOCATOR),
            culprit=analysis.trace.name(int(device.event[np.flatnonzero(joining)[0]])),
            problem="Concatenating copies old data again",
            remedy=remedy(
                "Allocate the longest buffer once, and write only the new data into it.",
                for_pytorch(
                    "For text generation, use a static cache (transformers: cache_implementation='static')."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=durations_times(joining, LEFT),
        )
