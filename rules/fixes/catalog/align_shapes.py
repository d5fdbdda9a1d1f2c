"""Dimensions are padded to multiples of what the tensor cores take."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.arrays import BOOL
from parsers.model.events import of_kinds
from parsers.model.late.regex import regex
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times
from rules.remedies.kernels import CHANNELS_LAST, PAD_SHAPES
from rules.replay.replay import Replay
from rules.wording.phrases import shortened

MIN_SHARE = 0.03  # of the GPU's time
# Unaligned loads move 2 or 4 bytes for each instruction instead of 16, and libraries have their newest kernels for
# aligned data only: a GPT-2 head of 50257 words takes 5 times as long as one of 50304 on an H100 (NVIDIA's deep
# learning performance guide shows 2 to 4 times on A100).
ALIGNED_TIME, ALIGNED_AT_LEAST, ALIGNED_AT_MOST = 0.3, 0.6, 0.15
_MISALIGNED = regex(r"align[12](?!\d)")


@fix
class AlignShapes:
    """16-bit products whose kernels are those for unaligned data."""

    id = "align-shapes"
    explanation = """
When it applies
    16-bit matrix products run kernels for unaligned data, judging by their names.

What is changed in the replay
    They take 0.3 of their time.

What makes it more or less
    Small products gain the least; with the newest kernels the remaining share may be a sixth.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        awkward = unaligned_products(analysis, replay)
        share = float(device.duration[awkward].sum() / max(device.duration[device.meeting < 0].sum(), 1.0))
        if share < MIN_SHARE:
            return
        longest = int(np.flatnonzero(awkward)[device.duration[awkward].argmax()])
        yield Proposal(
            title=f"Pad matrix dimensions: {percent(share)} of the GPU's time is kernels for unaligned data",
            categories=(Category.GEMM_SHAPE,),
            culprit=shortened(trace.name(int(device.event[longest])), 120),
            remedy=PAD_SHAPES.and_then(CHANNELS_LAST.advice[0]),
            expected=durations_times(awkward, ALIGNED_TIME),
            low=durations_times(awkward, ALIGNED_AT_LEAST),
            high=durations_times(awkward, ALIGNED_AT_MOST),
            depends_on="which dimensions can be padded",
        )


def unaligned_products(analysis: Analysis, replay: Replay) -> BOOL:
    """Which operations are products or convolutions in 16 bits by kernels for unaligned data."""
    trace, device = analysis.trace, replay.device
    names = trace.events.name[device.event]
    product = of_kinds(analysis.family_of_string[names], Family.GEMM, Family.CONVOLUTION)
    half = np.array([each.dtype in ("fp16", "bf16") for each in analysis.classes], bool)[names]
    by_name = named(trace, device.event, _MISALIGNED.search)
    return np.asarray(product & half & by_name)
