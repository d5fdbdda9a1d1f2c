"""Collectives that are fewer, larger, or hidden behind computation."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace
from parsers.model.arrays import distinct_values, median_of, percentile_of
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import union
from rules.analysis.names.regions import is_optimizer_step
from rules.analysis.ranks.collectives import collective_columns
from rules.analysis.ranks.groups import stages_of
from rules.analysis.stretches.backward_again import passes_of_an_update
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import (
    first_members,
    less_host_time,
    of_nodes,
    together,
    without_calls,
    without_meetings,
    without_waiting,
)
from rules.fixes.reduced_in_turn import meetings_inside, reduced_in_turn
from rules.memory.summary import is_nearly_full
from rules.remedies.communication import JOIN_MESSAGES, REDUCE_ONCE, hidden_communication
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import Surroundings, surroundings_of
from rules.wording.words import for_pytorch

PASSES = ("FullyShardedDataParallel.forward", "FSDP::root_pre_forward")
# what the CPU does to start a collective and to copy what it needs or gives
_GATHERING = (
    "FSDP::all_gather",
    "c10d::_allgather",
    "c10d::allgather",
    "nccl:_all_gather",
    "nccl:all_gather",
)
_REDUCING_SHARDS = (
    "FSDP::post_backward_reduce",
    "c10d::_reduce_scatter",
    "c10d::reduce_scatter",
    "nccl:_reduce_scatter",
    "nccl:reduce_scatter",
)
_ADDING = ("aten::add_", "aten::_foreach_add_")  # gradients are added up in any case


@dataclass(frozen=True, slots=True, eq=False)
class AgainInPasses:
    """Host nodes between two updates: behind the first forward pass, and before the last one."""

    behind_first: BOOL
    before_last: BOOL


def again_in_passes(analysis: Analysis, replay: Replay) -> AgainInPasses:
    """Where parameters that are kept need not be gathered, and gradients that are added up need not be reduced."""
    host = replay.host
    behind_first = autograd_functions(analysis) >= 0
    before_last = np.zeros(len(host), bool)
    for thread in range(host.threads):
        passes = _begins(analysis, replay, thread, lambda name: name.startswith(PASSES))
        updates = _begins(analysis, replay, thread, is_optimizer_step)
        mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
        at = host.start[mine]
        begun, following = np.searchsorted(passes, at, side="right"), np.searchsorted(updates, at)
        never = np.iinfo(np.int64).max
        last_update = np.append(0, updates)[following]
        behind_first[mine] |= begun - np.searchsorted(passes, last_update, side="right") >= 2
        before_last[mine] = np.append(passes, never)[begun] < np.append(updates, never)[following]
    return AgainInPasses(behind_first, before_last)


def _begins(analysis: Analysis, replay: Replay, thread: int, wanted: Callable[[str], object]) -> I64:
    """When the ranges of a wanted name begin on a thread of the replay; those inside of others count once."""
    trace = analysis.trace
    events = np.concatenate([analysis.threads.events(each) for each in replay.host.members[thread]])
    events = trace.events.only(events, EventKind.REGION)
    return union(*trace.events.spans(events[named(trace, events, wanted)]))[0]


def without_gathering(replay: Replay, calls: BOOL) -> Change:
    """These calls gather nothing: what the CPU and the GPU do for it is gone."""
    around = surroundings_of(replay.analysis)
    gone = calls & around.inside(_is_gathering)
    spent = around.time_inside(_is_gathering, EventKind.REGION, EventKind.CPU_OP)
    return together(less_host_time(calls, spent), without_calls(replay, gone, 0.0))


def without_reducing(replay: Replay, calls: BOOL) -> Change:
    """These calls reduce nothing; whole gradients are added up by kernels like those that copied them for it."""
    around = surroundings_of(replay.analysis)
    adding = around.inside(_ADDING.__contains__)
    gone = calls & around.inside(_is_reducing_shards) & ~adding
    spent = around.time_inside(_is_reducing_shards, EventKind.REGION, EventKind.CPU_OP)
    return together(less_host_time(calls & ~adding, spent), without_waiting(gone))


def _is_gathering(name: str) -> bool:
    return name.startswith(_GATHERING)


def _is_reducing_shards(name: str) -> bool:
    return name.startswith(_REDUCING_SHARDS)


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
            or float(median_of(transfers)) > SMALL_NS
        ):
            return
        around = surroundings_of(analysis)
        often = len(transfers) / replay.steps
        yield Proposal(
            title=(
                f"Use fewer, larger collectives: {often:,.0f} {replay.in_step}, half of them shorter than "
                f"{float(median_of(transfers)) / 1e3:.3g} us"
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
    floor = float(percentile_of(transfers, 5)) if len(transfers) else 0.0

    def change(overlay: Overlay) -> None:
        overlay.gap[mine] /= JOINED
        overlay.cost[mine] /= JOINED
        overlay.transfer[joins] -= np.minimum(floor * (1 - 1 / JOINED), overlay.transfer[joins])

    return change


LEFT, LEFT_AT_MOST, LEFT_AT_LEAST = 0.4, 0.7, 0.1  # of the transfers' time: half of the bytes, partly hidden


@fix
class HideCommunication:
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
    numbers = np.searchsorted(distinct_values(replay.device.meeting[meets]), replay.device.meeting[meets])

    def change(overlay: Overlay) -> None:
        overlay.transfer *= left
        overlay.duration[meets] = np.minimum(overlay.duration[meets], overlay.transfer[numbers])

    return change


# operators that copy gradients into buckets, and start what reduces them
_REDUCING = ("torch::distributed::reducer::", "c10d::", "nccl:", "record_param_comms")
# in buckets that gradients lie in, each is divided by the number of ranks where it is added up
_ACCUMULATES, _AVERAGED = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "aten::div_"
_FORWARD = "DistributedDataParallel.forward"


@fix
class ReduceOnce:
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
        meeting = distinct_values(device.meeting[members])
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
            remedy=REDUCE_ONCE,
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


_GATHERS, _REDUCES = "allgather", "reducescatter"

_GATHERING_CODE = """for block in model.blocks:
    fully_shard(block, reshard_after_forward=False)
fully_shard(model, reshard_after_forward=False)

for number, batch in enumerate(micro_batches):
    is_last = number == len(micro_batches) - 1
    model.set_reshard_after_backward(is_last)          # parameters are whole until the update
    model.set_requires_gradient_sync(is_last)          # and so are gradients, which are reduced once
    (model(batch) / len(micro_batches)).backward()
optimizer.step()"""


@fix
class GatherOnce:
    id = "gather-once"
    explanation = """
When it applies
    Each parameter update follows several passes of a model sharded by FSDP, and in each step every kind of all-gather
    and of reduce-scatter (the same bytes in the same group) comes a multiple of so many times. The GPU's memory, if it
    was recorded, is at most 70 % full.

What is changed in the replay
    Only the first forward pass's all-gathers and the last backward pass's reduce-scatters stay; the others take no
    time, and nothing waits for them. What the CPU needed to start them, and copies of gathered parameters, are gone,
    too. At least, gradients are still reduced in each pass.

What makes it more or less
    Whether the GPU's memory has room for the whole parameters and gradients. If the transfers are already overlapped
    with computation, only the CPU's time and the copies are gained; the replay accounts for that.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device, host = replay.device, replay.host
        _, first = first_members(replay)
        times = passes_of_an_update(analysis.trace, *PASSES)
        if len(replay.spans) < 2 or times < 2 or not len(first) or is_nearly_full(analysis):
            return
        launch = device.launch[first]
        kinds = _kinds_in_passes(analysis.trace, device.event[first], host.step[launch], times)
        again = again_in_passes(analysis, replay)
        gathers = np.array([each.startswith(_GATHERS) for each in kinds], bool) & again.behind_first[launch]
        reduces = np.array([each.startswith(_REDUCES) for each in kinds], bool) & again.before_last[launch]
        if not gathers.any():
            return
        kept = without_meetings(replay, gathers), without_gathering(replay, again.behind_first)
        added_up = without_meetings(replay, reduces), without_reducing(replay, again.before_last)
        yield Proposal(
            title=f"Gather parameters and reduce gradients once for {times} micro-batches instead of for each",
            categories=(Category.EXPOSED_COMMUNICATION, Category.COMMUNICATION_LATENCY),
            culprit="gathering in each micro-batch",
            problem="Parameters are gathered and gradients reduced again for each micro-batch",
            remedy=remedy(
                "If the GPU's memory has room for the whole parameters, keep them from the first micro-batch of an "
                "update to the last; if it has room for the whole gradients, too, reduce them after the last one only.",
                for_pytorch(
                    "With FullyShardedDataParallel: ShardingStrategy.SHARD_GRAD_OP, and all micro-batches but the "
                    "last inside model.no_sync()."
                ),
                code=for_pytorch(_GATHERING_CODE),
            ),
            expected=together(*kept, *added_up),
            low=together(*kept),
            depends_on="whether the GPU's memory has room for the whole parameters and gradients",
        )


def _kinds_in_passes(trace: Trace, events: I64, step: I64, times: int) -> list[str]:
    """The names of a replay's collectives; none where a pass does not gather and reduce what each other one does."""
    kinds, kind = collective_columns(trace).kinds_of(events)
    for number, each in enumerate(kinds):
        if not each.collective.startswith((_GATHERS, _REDUCES)):
            continue
        _, counts = np.unique(step[kind == number], return_counts=True)
        if (counts % times).any():
            return [""] * len(events)
    names = [kinds[each].collective for each in kind.tolist()]
    return names if any(each.startswith(_REDUCES) for each in names) else [""] * len(events)
