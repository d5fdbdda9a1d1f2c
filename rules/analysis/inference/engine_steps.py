"""Steps of a serving engine, told as prefill, decode or mixed by the names of their regions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace, derived
from parsers.model.arrays import distinct_values, rows_by
from parsers.model.late import dataclass
from parsers.model.names.per_name import distinct
from rules.analysis.arithmetic.innermost import outermost
from rules.analysis.names.serving_steps import StepKind, StepName, plain_step, sglang_step, vllm_step
from rules.analysis.steps.steps import launched_operations
from rules.terms import MAJORITY


@dataclass(frozen=True, slots=True, eq=False)
class EngineSteps:
    """Columns of equal length, sorted by start; times in int64 ns from the trace start, counts ``UNKNOWN`` or >= 0.

    A step whose region is over before the GPU has done its work, as under asynchronous scheduling, ends with that work,
    and the next one starts there. ``event`` is the region of each step, an index into the event table.
    """

    start: I64
    end: I64
    kind: I64
    prompts: I64
    decoded: I64
    prompt_tokens: I64
    event: I64

    def of_kind(self, kind: StepKind) -> EngineSteps:
        return self.where(self.kind == kind)

    def where(self, wanted: BOOL) -> EngineSteps:
        return EngineSteps(
            self.start[wanted],
            self.end[wanted],
            self.kind[wanted],
            self.prompts[wanted],
            self.decoded[wanted],
            self.prompt_tokens[wanted],
            self.event[wanted],
        )

    @property
    def tokens(self) -> int | None:
        """Tokens that were generated: one a request and decode step, and the first one of each prompt.

        None where names do not tell, and where steps are mixed: prompts may then be computed in several parts, and
        only the last part gives a token.
        """
        if np.any(self.kind == StepKind.MIXED) or np.any((self.prompts < 0) | (self.decoded < 0)):
            return None
        return int(self.prompts.sum() + self.decoded.sum())

    def __len__(self) -> int:
        return len(self.start)


_NAMINGS: tuple[Callable[[str], StepName | None], ...] = (vllm_step, sglang_step)


@derived
def engine_steps(trace: Trace) -> EngineSteps:
    """The steps of the first rank that has most of them, by the first naming that occurs; empty where there are none.

    Plain names are believed only where prefill and decode both occur: "decode" alone may be a picture's.
    """
    for naming in _NAMINGS:
        if len(steps := _steps_named(trace, naming)):
            return steps
    steps = _steps_named(trace, plain_step)
    told = steps.where((steps.prompts >= 0) & (steps.decoded >= 0))
    for each in (told, steps):
        if {StepKind.PREFILL, StepKind.DECODE} <= set(distinct_values(each.kind).tolist()):
            return each
    return steps.where(np.zeros(len(steps), bool))


def _steps_named(trace: Trace, naming: Callable[[str], StepName | None]) -> EngineSteps:
    events = trace.events
    for where in (EventKind.REGION, EventKind.GPU_REGION):
        regions = events.of_kind(where)
        table = np.zeros((len(trace.strings), 4), np.int64)
        for name in distinct(events.name[regions]).tolist():
            if (found := naming(trace.strings[name])) is not None:
                table[name] = found.kind, found.prompts, found.decoded, found.prompt_tokens
        regions = regions[table[events.name[regions], 0] > 0]
        if len(regions):
            break
    regions = _of_busiest_rank(trace, regions)
    of_lanes = [outermost(trace, regions[mine]) for _, mine in rows_by(events.lane[regions])]
    regions = events.by_start(np.concatenate([regions[:0], *of_lanes]))
    told = table[events.name[regions]]
    start, end = _with_their_work(trace, regions) if where is EventKind.REGION else _times(trace, regions)
    return EngineSteps(start, end, told[:, 0], told[:, 1], told[:, 2], told[:, 3], regions)


def _times(trace: Trace, regions: I64) -> tuple[I64, I64]:
    return trace.events.spans(regions)


def _with_their_work(trace: Trace, regions: I64) -> tuple[I64, I64]:
    """Starts and ends of steps, ns, with what they launched; regions by start, of one rank."""
    start, end = _times(trace, regions)
    if len(regions) < 2:
        return start, end
    rank = int(trace.lane_rank[trace.events.lane[regions[0]]])
    operations, launched = launched_operations(trace, rank)
    if not len(operations):
        return start, end
    done = np.maximum.accumulate(trace.events.end[operations])
    first, last = np.searchsorted(launched, start), np.searchsorted(launched, end)
    worked = np.where(last > first, done[np.maximum(last, 1) - 1], end)
    if np.mean(worked[:-1] > start[1:]) <= MAJORITY:
        return start, end
    ends = np.maximum(end, worked)
    starts = np.maximum(start, np.concatenate((start[:1], np.maximum.accumulate(ends)[:-1])))
    return np.minimum(starts, ends), ends


def _of_busiest_rank(trace: Trace, regions: I64) -> I64:
    if not len(regions):
        return regions
    rank = trace.lane_rank[trace.events.lane[regions]]
    found, counts = np.unique(rank, return_counts=True)
    of_busiest: I64 = regions[rank == found[np.argmax(counts)]]
    return of_busiest
