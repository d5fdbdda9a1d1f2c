"""Gradients that no optimizer uses are not computed."""

from __future__ import annotations

from parsers.model import BOOL
from parsers.model.units import percent
from rules.findings.category import Category
from rules.fixes.base import Proposal
from rules.fixes.changes import share_of, without_calls
from rules.remedies.gradients import NO_UNUSED_GRADIENTS
from rules.replay.replay import Replay


def without_gradients(replay: Replay, nodes: BOOL, parameters: int) -> Proposal:
    """What these calls of the backward pass compute is for so many parameters that no optimizer updates."""
    share = share_of(replay, nodes[replay.device.launch])
    counted = f"{parameters:,} parameter{'s' if parameters != 1 else ''}"
    return Proposal(
        title=(
            f"Do not compute gradients for {counted} that no optimizer updates: "
            f"{percent(share)} of the GPU's time"
        ),
        categories=(Category.SLOW_OPERATOR, Category.GPU_BOUND, Category.LAUNCH_BOUND),
        culprit="gradients that nobody uses",
        problem="Gradients are computed that nobody uses",
        remedy=NO_UNUSED_GRADIENTS,
        expected=without_calls(replay, nodes),
    )
