"""The parts of a sharded model are gathered for the first micro-batch of an update, and kept for the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import collective_columns
from rules.analysis.stretches.passes import passes_of_an_update
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import first_members, without_meetings
from rules.memory.room import is_nearly_full
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

_PASSES = ("FullyShardedDataParallel.forward", "FSDP::root_pre_forward")
_GATHERS, _REDUCES = "allgather", "reducescatter"

_CODE = """for block in model.blocks:
    fully_shard(block, reshard_after_forward=False)
fully_shard(model, reshard_after_forward=False)

for number, batch in enumerate(micro_batches):
    model.set_reshard_after_backward(number == len(micro_batches) - 1)   # whole until the update
    (model(batch) / len(micro_batches)).backward()
optimizer.step()"""


@fix
class GatherOnce:
    """Several passes of a sharded model for each update, each of which gathers its parameters again."""

    id = "gather-once"
    explanation = """
When it applies
    Each parameter update follows several passes of a model sharded by FSDP, and in each step every kind of all-gather
    and of reduce-scatter (the same bytes in the same group) comes a multiple of so many times. The GPU's memory, if it
    was recorded, is at most 70 % full.

What is changed in the replay
    Only the first pass's all-gathers stay; the others take no time, and nothing waits for them. The gradients are
    still reduced in each pass.

What makes it more or less
    Whether the GPU's memory has room for the whole parameters. If the transfers are already overlapped with
    computation, little is gained; the replay accounts for that.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device, host = replay.device, replay.host
        _, first = first_members(replay)
        times = passes_of_an_update(analysis.trace, *_PASSES)
        if len(replay.spans) < 2 or times < 2 or not len(first) or is_nearly_full(analysis):
            return
        launch = device.launch[first]
        repeated = _repeated(
            analysis.trace, device.event[first], host.step[launch], host.start[launch], times
        )
        if not repeated.any():
            return
        yield Proposal(
            title=f"Gather the parameters once for {times} micro-batches instead of for each",
            categories=(Category.EXPOSED_COMMUNICATION, Category.COMMUNICATION_LATENCY),
            culprit="gathering in each micro-batch",
            problem="Parameters are gathered again for each micro-batch",
            remedy=remedy(
                "If the GPU's memory has room for the whole parameters, keep them from the first micro-batch of an "
                "update to the last.",
                for_pytorch(
                    "With FullyShardedDataParallel: ShardingStrategy.SHARD_GRAD_OP, and all micro-batches but the "
                    "last inside model.no_sync()."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=without_meetings(replay, repeated),
            depends_on="whether the GPU's memory has room for the whole parameters",
        )


def _repeated(trace: Trace, events: I64, step: I64, launched: I64, times: int) -> BOOL:
    """Which of a replay's collectives gather what an earlier pass of the same step did."""
    columns = collective_columns(trace)
    kinds, kind_of = columns.kinds()
    order = np.argsort(columns.event)
    kind = kind_of[order[np.searchsorted(columns.event[order], events)]]
    found = np.zeros(len(events), bool)
    for number, each in enumerate(kinds):
        if not each.collective.startswith((_GATHERS, _REDUCES)):
            continue
        for one in np.unique(step[kind == number]):
            mine = np.flatnonzero((kind == number) & (step == one))
            if len(mine) % times:
                return np.zeros(len(events), bool)
            if each.collective.startswith(_GATHERS):
                found[mine[np.argsort(launched[mine], kind="stable")][len(mine) // times :]] = True
    reduces = any(each.collective.startswith(_REDUCES) for each in kinds)
    return found if reduces else np.zeros(len(events), bool)
