"""Attention is computed by one fused kernel, which never writes its scores to memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.arrays import BOOL
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.memory_bound import memory_bound
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.catalog.align_shapes import unaligned_products
from rules.fixes.changes import share_of
from rules.remedies.kernels import FUSED_ATTENTION
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay

MIN_SHARE = 0.03  # of the GPU's time
LAUNCHES_LEFT = 0.1  # of the host's time for what stands between the products
PADDED_TIME = 0.5  # of products for unaligned data: docs/predictions.md
NEAR = 4  # places on a stream: the backward pass has two products on either side of the scores


@fix
class FuseAttention:
    """Softmax and everything else between the two matrix products of attention."""

    id = "fuse-attention"
    switches = ("sdpa-backend",)
    explanation = """
When it applies
    A softmax and kernels that only move the scores lie between two matrix products.

What is changed in the replay
    Everything between the two products is gone, on the GPU and nearly all of it on the host. The products stay; those
    next to the scores that run as kernels for unaligned data take half their time, because a fused kernel pads.

What makes it more or less
    The fused kernel also computes the products, and faster; a mask that it does not support makes it slower.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        events = [memory_bound(analysis, device).attention for device in analysis.active_devices]
        scores = np.isin(replay.device.event, np.concatenate(events)) if events else np.zeros(0, bool)
        share = share_of(replay, scores)
        if share < MIN_SHARE:
            return
        nodes = np.zeros(len(replay.host), bool)
        nodes[replay.device.launch[scores]] = True
        # what passes before a launch for longer than usual is something else, such as the next batch being made ready
        usual = float(np.median(replay.host.gap[nodes])) if nodes.any() else 0.0
        padded = unaligned_products(analysis, replay) & _beside(replay, scores)

        def fused(overlay: Overlay) -> None:
            overlay.duration[scores] = 0.0
            overlay.duration[padded] *= PADDED_TIME
            overlay.gap[nodes] -= (1.0 - LAUNCHES_LEFT) * np.minimum(overlay.gap[nodes], usual)
            overlay.cost[nodes] *= LAUNCHES_LEFT

        yield Proposal(
            title=f"Use fused attention: {percent(share)} of the GPU's time writes and reads attention scores",
            categories=(Category.MEMORY_BOUND_KERNELS,),
            culprit="attention scores",
            remedy=FUSED_ATTENTION,
            expected=fused,
        )


def _beside(replay: Replay, scores: BOOL) -> BOOL:
    """Which operations lie at most ``NEAR`` places before or after one of these on their stream."""
    found = np.zeros(len(scores), bool)
    for apart in range(1, NEAR + 1):
        same = replay.device.stream[apart:] == replay.device.stream[:-apart]
        found[:-apart] |= scores[apart:] & same
        found[apart:] |= scores[:-apart] & same
    return found
