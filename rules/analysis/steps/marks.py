"""Which regions may mark steps, by their names: known software's, numbered ones, ones with a word for a step."""

from __future__ import annotations

import re
from collections import Counter as Tally
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace
from parsers.model.arrays import distinct_values, median_of, rows_by
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from parsers.model.names.steps import engine_step, numbered
from rules.analysis.names.regions import RegionRole, is_loader, role_of

MIN_CYCLES = 3
_OPTIMIZER_STEP = regex(r"Optimizer\.step#")
MIN_MATCH = 0.95  # share of regions that equal the one a cycle later


def cycles_of_regions(trace: Trace, lanes: BOOL) -> tuple[I64, I64, I64] | None:
    """Starts and ends of cycles and the regions they consist of, where a thread's outermost regions repeat in turn.

    Where several threads run the same regions they serve requests side by side, and none is the run's cycle.
    """
    regions = trace.events.of_kind(EventKind.REGION)
    regions = regions[lanes[trace.events.lane[regions]] & (trace.events.depth[regions] == 0)]
    regions = regions[
        named(trace, regions, lambda name: role_of(name) in (RegionRole.USER, RegionRole.INPUT))
    ]
    regions = trace.events.by_start(regions)
    of_lanes = [regions[rows] for _, rows in rows_by(trace.events.lane[regions])]
    on_lanes = Tally(name for mine in of_lanes for name in distinct_values(trace.events.name[mine]).tolist())
    best: tuple[I64, I64, I64] | None = None
    for mine in of_lanes:
        names = trace.events.name[mine]
        firsts = np.flatnonzero(names == names[0])
        period = int(median_of(np.diff(firsts))) if len(firsts) > 1 else 0
        if len(firsts) < MIN_CYCLES or period < 2 or len(distinct_values(names)) < 2:
            continue
        if np.mean(names[period:] == names[:-period]) < MIN_MATCH or (best and len(firsts) <= len(best[0])):
            continue
        if on_lanes[int(names[0])] > 1:
            continue
        starts = trace.events.start[mine[firsts]]
        best = starts, np.append(starts[1:], trace.events.end[mine].max()), mine
    return best


def cycles_of_loops(trace: Trace, lanes: BOOL) -> tuple[I64, I64] | None:
    """Starts and ends of iterations by what PyTorch itself annotates once in each: the optimizer's step, which ends it,
    else the data loader's next batch, which begins it; None where neither comes often enough on one thread.
    """
    events = trace.events.of_kind(EventKind.REGION, EventKind.CPU_OP)
    events = events[lanes[trace.events.lane[events]]]
    for wanted, ends_it in ((_OPTIMIZER_STEP.match, True), (is_loader, False)):
        marks = _rarest_that_repeats(trace, events[named(trace, events, wanted)])
        if marks is None:
            continue
        same = events[trace.events.lane[events] == trace.events.lane[marks[0]]]
        if ends_it:
            ends = trace.events.end[marks]
            return np.concatenate(([trace.events.start[same].min()], ends[:-1])), ends
        starts = trace.events.start[marks]
        return starts, np.append(starts[1:], trace.events.end[same].max())
    return None


def _rarest_that_repeats(trace: Trace, events: I64) -> I64 | None:
    """Of events of one name on one lane that come often enough, those that come least often, by time."""
    key = trace.events.lane[events].astype(np.int64) << 32 | trace.events.name[events]
    found, counts = np.unique(key, return_counts=True)
    often = counts >= MIN_CYCLES
    if not often.any():
        return None
    mine: I64 = events[key == found[often][counts[often].argmin()]]
    by_time: I64 = trace.events.by_start(mine)
    return by_time


_WORD = regex(
    r"(?<![a-z])(step|iter|iteration|batch|request|inference|token|decode|prefill|generate|generation|sample|frame|"
    r"epoch|train|training|trainstep|microbatch|query|episode)s?(?![a-z])",
    re.IGNORECASE,
)
_NEVER = regex(
    r"layer|block|module|stage|head|bucket|expert|fsdp|ddp|nccl|conv|attn|attention|mlp|level|chunk|## |"
    r"aten::|rank|worker|"
    r"pass\.|compile",
    re.IGNORECASE,
)
_COARSE = regex(r"epoch|episode", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mark:
    """What regions that may be the same steps have in common; ``stated`` ones are steps also when there is but one."""

    stem: str
    numbered: bool = False
    stated: bool = False

    @property
    def is_coarse(self) -> bool:
        """Whether it marks something that holds many steps."""
        return bool(_COARSE.search(self.stem))

    @property
    def says_step(self) -> bool:
        """Whether a word for a step is part of it."""
        return self.stated or bool(_WORD.search(self.stem))


def mark_of(name: str) -> Mark | None:
    """The mark of a region by its name; None for regions that are no steps."""
    if stem := engine_step(name):
        return Mark(stem, stated=True)
    if _NEVER.search(name):
        return None
    parts = numbered(name)
    if parts is not None:
        return Mark(parts[0], numbered=True)
    return Mark(name) if _WORD.search(name) else None


def follow_on(names: list[str]) -> BOOL:
    """Whether each step is directly followed by the next one: unless their numbers say that some are missing."""
    counts = [None if (mark := mark_of(name)) and mark.stated else numbered(name) for name in names]
    return np.array(
        [one is None or other is None or other[1] == one[1] + 1 for one, other in pairwise(counts)], bool
    )
