"""Communication runs beside computation, or moves half of the bytes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.stages import stages_of
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.remedies.communication import hidden_communication
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay

LEFT, LEFT_AT_MOST, LEFT_AT_LEAST = 0.4, 0.7, 0.1  # of the transfers' time: half of the bytes, partly hidden


@fix
class HideCommunication:
    """Collectives whose transfers the computation waits for."""

    id = "hide-communication"
    switches = (
        "gradient-as-bucket-view",
        "static-graph",
        "ddp-bucket-size",
        "nccl-channels",
        "nccl-high-priority",
        "no-collectives",
    )
    explanation = """
When it applies
    Several ranks communicate, and shorter transfers would make the steps shorter. Waiting for a late rank does not
    count as a transfer. Stages of a pipeline overlap with more micro-batches, which is a fix of its own.

What is changed in the replay
    Transfers take 0.4 of their time.

What makes it more or less
    How early they can start: gradients of the last layers while the first ones are still being computed. 16-bit types
    halve the bytes.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        transfers = float(replay.recorded.transfer.sum()) / max(replay.steps, 1)
        if len(replay.spans) < 2 or not transfers or stages_of(analysis.trace):
            return
        yield Proposal(
            title=(
                f"Overlap or shorten communication: transfers take {percent(transfers / replay.recorded_ns)} of the "
                "time"
            ),
            categories=(Category.EXPOSED_COMMUNICATION,),
            culprit="communication",
            remedy=hidden_communication(
                analysis, int(np.bincount(replay.device.device[replay.device.meeting >= 0]).argmax())
            ),
            expected=_shorter(replay, LEFT),
            low=_shorter(replay, LEFT_AT_MOST),
            high=_shorter(replay, LEFT_AT_LEAST),
            depends_on="how much of it can overlap with computation",
        )


def _shorter(replay: Replay, left: float) -> Change:
    meets = replay.device.meeting >= 0
    numbers = np.searchsorted(np.unique(replay.device.meeting[meets]), replay.device.meeting[meets])

    def change(overlay: Overlay) -> None:
        overlay.transfer *= left
        overlay.duration[meets] = np.minimum(overlay.duration[meets], overlay.transfer[numbers])

    return change
