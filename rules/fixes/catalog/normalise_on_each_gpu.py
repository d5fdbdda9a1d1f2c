"""Batch normalisation takes the statistics of its own GPU's samples instead of asking all ranks in every layer."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import host_time_times, together, without_waiting
from rules.fixes.counted_rows import counts_rows
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

FEW = 4  # synchronised normalisations in a step: fewer cost next to nothing
# of the host's time for one: a single call instead of statistics, a collective, a mask and the rest
HOST_LEFT = 0.2

_CODE = """# leave out: model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
# with small batches: normalisation that needs no batch
norm = torch.nn.GroupNorm(32, channels)"""


@fix
class NormaliseOnEachGpu:
    """Synchronised batch normalisation."""

    id = "normalise-on-each-gpu"
    explanation = """
When it applies
    At least 4 synchronised batch normalisations per step in a run on several GPUs, judging by operator names.

What is changed in the replay
    Their collectives and waits are gone, and so are four fifths of the host time inside them. Their kernels stay.

What makes it more or less
    Whether each GPU's batch is large enough for its own statistics: 16 or more samples are.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        around, device = surroundings_of(analysis), replay.device
        inside = around.around(lambda name: name.startswith("SyncBatchNorm"))
        often = (len(np.unique(inside)) - 1) / max(replay.steps, 1) / max(len(replay.spans), 1) / 2
        if len(replay.spans) < 2 or often < FEW:
            return
        nodes = inside >= 0
        meeting = nodes[device.launch] & (device.meeting >= 0)
        numbers = np.isin(np.unique(device.meeting[device.meeting >= 0]), device.meeting[meeting])
        counted = nodes & counts_rows(replay)
        vanishing = counted[device.launch]

        def alone(overlay: Overlay) -> None:
            overlay.transfer[numbers] = 0.0
            overlay.meets[numbers] = False
            overlay.duration[meeting | vanishing] = 0.0

        yield Proposal(
            title=(
                f"Normalise batches on each GPU separately: {often:,.0f} layers synchronise all ranks twice "
                f"{replay.in_step}"
            ),
            categories=(
                Category.COMMUNICATION_LATENCY,
                Category.EXPOSED_COMMUNICATION,
                Category.SYNCHRONIZATION,
            ),
            culprit="SyncBatchNorm",
            remedy=remedy(
                "With 16 or more samples per GPU, use each GPU's own statistics.",
                "With fewer, use a normalisation that needs no batch: group or layer normalisation.",
                code=for_pytorch(_CODE),
            ),
            expected=together(
                alone, host_time_times(nodes, HOST_LEFT), without_waiting(nodes & (replay.waits.target >= 0))
            ),
        )
