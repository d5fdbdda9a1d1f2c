"""Gradients of several micro-batches are reduced once, with the last of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import first_members, without_meetings
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

_FORWARD, _UPDATE = "DistributedDataParallel.forward", "Optimizer.step"

_CODE = """for number, batch in enumerate(micro_batches):
    last = number == len(micro_batches) - 1
    with nullcontext() if last else model.no_sync():   # gradients add up on each rank
        loss = model(batch) / len(micro_batches)
        loss.backward()
optimizer.step()"""


@fix
class ReduceOnce:
    """Several forward passes of a data-parallel model for each update, with collectives in all of them."""

    id: ClassVar[str] = "reduce-once"
    switches: ClassVar[tuple[str, ...]] = ("no-sync",)
    explanation: ClassVar[str] = """
When it applies
    Each parameter update follows several forward passes of DistributedDataParallel, and every backward pass runs
    collectives.

What is changed in the replay
    Only the last pass's collectives stay; the others take no time, and nothing waits for them.

What makes it more or less
    If they are already overlapped with computation, little is gained; the replay accounts for that.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device, host = replay.device, replay.host
        if len(replay.spans) < 2 or not (device.meeting >= 0).any():
            return
        around = surroundings_of(analysis)
        passes = len(np.unique(around.around(lambda name: name.startswith(_FORWARD)))) - 1
        updates = len(np.unique(around.around(lambda name: name.startswith(_UPDATE)))) - 1
        times = round(passes / updates) if updates > 0 else 1
        if times < 2:
            return
        _, first = first_members(replay)
        launched, step = host.start[device.launch[first]], host.step[device.launch[first]]
        early = np.zeros(len(first), bool)
        for each in range(replay.steps):
            mine = np.flatnonzero(step == each)
            mine = mine[np.argsort(launched[mine], kind="stable")]
            early[mine[: len(mine) * (times - 1) // times]] = True
        yield Proposal(
            title=f"Reduce the gradients once for {times} backward passes instead of after each",
            categories=(Category.EXPOSED_COMMUNICATION, Category.COMMUNICATION_LATENCY),
            culprit="gradient accumulation",
            remedy=remedy(
                "Run all backward passes of an update except the last inside model.no_sync().",
                code=for_pytorch(_CODE),
            ),
            expected=without_meetings(replay, early),
        )
