"""Gradients of several micro-batches are reduced once, with the last of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, EventKind
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.passes import passes_of_an_update
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import first_members, less_host_time, together, without_calls, without_meetings
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

# operators that copy gradients into buckets, and start what reduces them
_REDUCING = ("torch::distributed::reducer::", "c10d::", "nccl:", "record_param_comms")
# in buckets that gradients lie in, each is divided by the number of ranks where it is added up
_ACCUMULATES, _AVERAGED = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "aten::div_"
_FORWARD = "DistributedDataParallel.forward"

_CODE = """for number, batch in enumerate(micro_batches):
    last = number == len(micro_batches) - 1
    with nullcontext() if last else model.no_sync():   # gradients add up on each rank
        loss = model(batch) / len(micro_batches)
        loss.backward()
optimizer.step()"""


@fix
class ReduceOnce:
    """Several forward passes of a data-parallel model for each update, with collectives in all of them."""

    id = "reduce-once"
    switches = ("no-sync",)
    explanation = """
When it applies
    Each parameter update follows several forward passes of DistributedDataParallel, and every backward pass runs
    collectives.

What is changed in the replay
    Only the last pass's collectives stay; the others take no time, and nothing waits for them. What the CPU needed to
    start them, and what copies gradients into their buffers, is gone, too.

What makes it more or less
    If they are already overlapped with computation, only the CPU's time and the copies are gained; the replay accounts
    for that.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device, host = replay.device, replay.host
        if len(replay.spans) < 2 or not (device.meeting >= 0).any():
            return
        around = surroundings_of(analysis)
        times = passes_of_an_update(analysis.trace, _FORWARD)
        if times < 2:
            return
        _, first = first_members(replay)
        launched, step = host.start[device.launch[first]], host.step[device.launch[first]]
        early = np.zeros(len(first), bool)
        for each in range(replay.steps):
            mine = np.flatnonzero(step == each)
            mine = mine[np.argsort(launched[mine], kind="stable")]
            early[mine[: len(mine) * (times - 1) // times]] = True
        members = np.flatnonzero(device.meeting >= 0)
        meeting = np.unique(device.meeting[members])
        gone = members[early[np.searchsorted(meeting, device.meeting[members])]]
        accumulates = around.inside(lambda name: name.startswith(_ACCUMULATES))
        reduces = around.inside(_is_reducing) | (accumulates & around.inside(_AVERAGED.__eq__))
        calls = _before_last(replay, device.launch[gone]) & reduces
        inside = around.time_inside(lambda name: _is_reducing(name) or name == _AVERAGED, EventKind.CPU_OP)
        starting = np.where(calls, inside, 0.0)
        yield Proposal(
            title=f"Reduce the gradients once for {times} backward passes instead of after each",
            categories=(Category.EXPOSED_COMMUNICATION, Category.COMMUNICATION_LATENCY),
            culprit="gradient accumulation",
            remedy=remedy(
                "Run all backward passes of an update except the last inside model.no_sync().",
                code=for_pytorch(_CODE),
            ),
            expected=together(
                without_meetings(replay, early),
                less_host_time(calls, starting),
                without_calls(replay, calls, 0.0),
            ),
        )


def _before_last(replay: Replay, gone: I64) -> BOOL:
    """Which calls of each step come up to the last of those of its thread that are gone."""
    host = replay.host
    key = host.step.astype(np.int64) * host.threads + host.thread
    last = np.full(int(key.max(initial=0)) + 1, -1, np.int64)
    np.maximum.at(last, key[gone], gone)
    return np.asarray(np.arange(len(host)) <= last[key])


def _is_reducing(name: str) -> bool:
    return name.startswith(_REDUCING)
