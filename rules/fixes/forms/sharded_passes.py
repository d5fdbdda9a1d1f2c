"""What several passes of a sharded model gather and reduce again, although one update follows all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parsers.model import BOOL, I64, EventKind
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import union
from rules.analysis.names.regions import is_optimizer_step
from rules.fixes.backward import autograd_functions
from rules.fixes.changes import less_host_time, together, without_calls, without_waiting
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of

PASSES = ("FullyShardedDataParallel.forward", "FSDP::root_pre_forward")
# what the CPU does to start a collective and to copy what it needs or gives
_GATHERING = (
    "FSDP::all_gather",
    "c10d::_allgather",
    "c10d::allgather",
    "nccl:_all_gather",
    "nccl:all_gather",
)
_REDUCING = (
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
    gone = calls & around.inside(_is_reducing) & ~adding
    spent = around.time_inside(_is_reducing, EventKind.REGION, EventKind.CPU_OP)
    return together(less_host_time(calls & ~adding, spent), without_waiting(gone))


def _is_gathering(name: str) -> bool:
    return name.startswith(_GATHERING)


def _is_reducing(name: str) -> bool:
    return name.startswith(_REDUCING)
