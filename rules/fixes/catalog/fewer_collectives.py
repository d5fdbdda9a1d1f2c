"""Many small collectives become fewer and larger ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import of_nodes
from rules.fixes.reduced_in_turn import meetings_inside, reduced_in_turn
from rules.remedies.communication import JOIN_MESSAGES
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import Surroundings, surroundings_of

MANY = 30  # collectives in a step
SMALL_NS = 100_000.0  # median transfer: below, a collective is mostly its start
JOINED = 2.0  # collectives of which one is made
_ISSUING = (
    "FSDP::",
    "nccl:",
    "c10d::",
    "record_param_comms",
    "DistributedDataParallel.",
    "_foreach_copy",
    "chunk_cat",
)


@fix
class FewerCollectives:
    """Collectives that are so small that starting them costs more than the transfer."""

    id = "fewer-collectives"
    switches = ("ddp-bucket-size", "nccl-low-latency", "nccl-tree", "no-collectives")
    explanation = """
When it applies
    A step has more than 30 collectives whose median transfer takes less than 0.1 ms. Values that are reduced and read
    back one by one are a fix of their own.

What is changed in the replay
    Every two become one: half of the transfers' start-up time, and half of the host time in the ranges that issue
    them, is gone. Whatever the program waits for in between stays.

What makes it more or less
    How many can be combined: groups of whole layers instead of their parts, one tensor instead of many numbers.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        reduced = reduced_in_turn(analysis)
        others = ~meetings_inside(replay, reduced)
        transfers = replay.recorded.transfer[others]
        if (
            len(replay.spans) < 2
            or len(transfers) < MANY * replay.steps
            or float(np.median(transfers)) > SMALL_NS
        ):
            return
        around = surroundings_of(analysis)
        often = len(transfers) / replay.steps
        yield Proposal(
            title=(
                f"Use fewer, larger collectives: {often:,.0f} {replay.in_step}, half of them shorter than "
                f"{float(np.median(transfers)) / 1e3:.3g} us"
            ),
            categories=(Category.COMMUNICATION_LATENCY, Category.EXPOSED_COMMUNICATION),
            culprit="small collectives",
            remedy=JOIN_MESSAGES,
            expected=_joined(replay, around, ~reduced, others),
        )


def _joined(replay: Replay, around: Surroundings, calls: BOOL, joins: BOOL) -> Change:
    device = replay.device
    issuing = around.inside(lambda name: any(word in name for word in _ISSUING)) & (replay.waits.target < 0)
    mine = (issuing | of_nodes(replay, device.meeting >= 0)) & calls
    transfers = replay.recorded.transfer[joins]
    floor = float(np.percentile(transfers, 5)) if len(transfers) else 0.0

    def change(overlay: Overlay) -> None:
        overlay.gap[mine] /= JOINED
        overlay.cost[mine] /= JOINED
        overlay.transfer[joins] -= np.minimum(floor * (1 - 1 / JOINED), overlay.transfer[joins])

    return change
