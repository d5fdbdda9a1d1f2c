"""Joins a timeline with kernel reports: which profiled launch stands for which kernel on the timeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from parsers.model import I64, U8, Attribute, EventKind, KernelProfile, Trace, derived
from parsers.model.late import dataclass
from parsers.model.names.kernels import base_name, similarity
from rules.kernels.launch_groups import kernel_groups

CLEARLY_BETTER = 0.1
MIN_SIMILARITY = 0.75


class Certainty(IntEnum):
    """How sure a match is."""

    NONE = 0
    NAME_ONLY = 1  # the shapes differ or were not recorded
    AMBIGUOUS = 2  # several kernels of that name and shape; the spelling that fits best was taken
    SHAPE = 3  # name, grid and block agree
    LAUNCH = 4  # the same number of launches of that name and shape: paired in order

    @property
    def text(self) -> str:
        return _CERTAINTY_TEXT[self]


_CERTAINTY_TEXT = {
    Certainty.NONE: "not profiled",
    Certainty.NAME_ONLY: "a kernel of the same name was profiled with another grid or block",
    Certainty.AMBIGUOUS: "several profiled kernels have this name and shape; this is the one that fits best",
    Certainty.SHAPE: "a launch with the same name, grid and block was profiled",
    Certainty.LAUNCH: "this launch was profiled: name, grid, block and order agree",
}


@dataclass(frozen=True, slots=True, eq=False)
class KernelJoin:
    """For each kernel of the timeline (``event``, sorted) the profile that stands for it, as an index; -1 for none."""

    event: I64
    profile: I64
    certainty: U8
    kernels: tuple[KernelProfile, ...]

    def profile_of(self, event: int) -> tuple[KernelProfile, Certainty] | None:
        """The profile for one kernel event."""
        at = int(np.searchsorted(self.event, event))
        if at >= len(self.event) or self.event[at] != event or self.profile[at] < 0:
            return None
        return self.kernels[self.profile[at]], Certainty(int(self.certainty[at]))

    def events_of(self, kernels: Sequence[KernelProfile]) -> I64:
        """The kernel events for which any of these profiles stands."""
        wanted = {kernel.id for kernel in kernels}
        indices = [index for index, kernel in enumerate(self.kernels) if kernel.id in wanted]
        return self.event[np.isin(self.profile, indices) & (self.certainty >= Certainty.AMBIGUOUS)]

    @property
    def matched(self) -> int:
        return int((self.profile >= 0).sum())


@derived
def kernel_join(trace: Trace) -> KernelJoin:
    """The join of a trace that holds both; computed once."""
    events = np.sort(trace.events.of_kind(EventKind.KERNEL))
    profile = np.full(len(events), -1, np.int64)
    certainty = np.zeros(len(events), np.uint8)
    if not len(events) or not trace.kernels:
        return KernelJoin(events, profile, certainty, trace.kernels)
    by_base: dict[str, list[int]] = defaultdict(list)
    for index, kernel in enumerate(trace.kernels):
        by_base[base_name(kernel.name)].append(index)
    names = trace.events.name[events].astype(np.int64)
    grids = trace.attribute(Attribute.GRID_SHAPE, events, -1)
    blocks = trace.attribute(Attribute.BLOCK_SHAPE, events, -1)
    keys, which = np.unique(np.stack((names, grids, blocks), axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    edges = np.searchsorted(which[order], np.arange(len(keys) + 1))
    for number, (name, grid, block) in enumerate(keys.tolist()):
        candidates = by_base.get(base_name(trace.strings[name]))
        if not candidates:
            continue
        mine = order[edges[number] : edges[number + 1]]
        mine = mine[np.argsort(trace.events.start[events[mine]], kind="stable")]
        chosen, sure = _choose(
            trace, candidates, trace.strings[name], (_text(trace, grid), _text(trace, block))
        )
        if not chosen:
            continue
        if sure >= Certainty.SHAPE and len(chosen) == len(mine):
            profile[mine], certainty[mine] = chosen, Certainty.LAUNCH
        else:
            profile[mine], certainty[mine] = _typical(trace, chosen), sure
    return KernelJoin(events, profile, certainty, trace.kernels)


def is_foreign_report(trace: Trace) -> bool:
    """Whether the profiled kernels are of another program: none of them is among the kernels on the timeline."""
    return bool(trace.kernels) and bool(len(kernel_join(trace).event)) and not kernel_join(trace).matched


def _choose(
    trace: Trace, candidates: list[int], name: str, shape: tuple[str, str]
) -> tuple[list[int], Certainty]:
    """The profiled launches that fit a name and shape best, in the order in which they were profiled."""
    kernels = trace.kernels
    scores = {each: similarity(kernels[each].name, name) for each in candidates}
    alike = [each for each in candidates if scores[each] >= MIN_SIMILARITY]
    same_shape = [each for each in alike if _shape(kernels[each]) == shape]
    pool = same_shape or alike
    if not pool:
        return [], Certainty.NONE
    best = max(pool, key=lambda each: scores[each])
    chosen = [each for each in pool if kernels[each].name == kernels[best].name]
    if not same_shape:
        return chosen, Certainty.NAME_ONLY
    runner_up = max((scores[each] for each in pool if each not in chosen), default=0.0)
    if scores[best] < 1.0 and runner_up > scores[best] - CLEARLY_BETTER:
        return chosen, Certainty.AMBIGUOUS
    return chosen, Certainty.SHAPE


def _typical(trace: Trace, chosen: list[int]) -> int:
    group = kernel_groups([trace.kernels[index] for index in chosen])[0]
    return next(index for index in chosen if trace.kernels[index] is group.representative)


def _shape(kernel: KernelProfile) -> tuple[str, str]:
    return ",".join(map(str, kernel.grid)), ",".join(map(str, kernel.block))


def _text(trace: Trace, index: int) -> str:
    return trace.strings[index] if index >= 0 else ""
