"""Steps of a serving engine, told as prefill, decode or mixed by the names of their regions."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace, derived
from parsers.model.arrays import distinct_values, rows_by
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import distinct
from rules.analysis.arithmetic.outermost import outermost
from rules.analysis.steps.steps import launched_operations
from rules.terms import MAJORITY

UNKNOWN = -1  # a count that the name does not tell


class StepKind(IntEnum):
    """What one iteration of an engine computes."""

    PREFILL = 1  # prompts alone
    DECODE = 2  # one token for each of several requests
    MIXED = 3  # both


@dataclass(frozen=True, slots=True)
class StepName:
    """What a region's name tells: how many prompts and how many requests being answered are in the step.

    ``prompt_tokens`` is the length of all prompts, or parts of prompts, that it computes.
    """

    kind: StepKind
    prompts: int = UNKNOWN
    decoded: int = UNKNOWN
    prompt_tokens: int = UNKNOWN


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


_VLLM = regex(r"^execute_(?:\w{0,40}_)?context_(\d{1,9})\((\d{1,9})?[^)]*\)_generation_(\d{1,9})\(")
_SGLANG = regex(r"^step\[([A-Z_]+)(?: bs=(\d{1,9}))?(?: toks=(\d{1,9}))?")
_SGLANG_MODES = {
    "EXTEND": StepKind.PREFILL,
    "PREFILL": StepKind.PREFILL,
    "SPLIT_PREFILL": StepKind.PREFILL,
    "DECODE": StepKind.DECODE,
    "MIXED": StepKind.MIXED,
}
_PLAIN = regex(r"^(prefill|decode|mixed)(?:[_ ]?(?:step|batch|iteration))?(?![a-z])", re.IGNORECASE)
_COUNT = regex(
    r"(?<![a-z])(bs|batch|batch_?size|n?seqs|num_seqs|num_reqs|requests)\s*[=:]\s*(\d{1,9})(?!\d)",
    re.IGNORECASE,
)
_OTHER_COUNT = regex(
    r"(?<![a-z])(toks|n?tokens|num_tokens|len|seq_?len|prompt_?len|step|iter)\s*[=:]\s*\d{1,9}", re.IGNORECASE
)
_TOKENS = regex(r"(?<![a-z])(?:toks|n?tokens|num_tokens)\s*[=:]\s*(\d{1,9})(?!\d)", re.IGNORECASE)
_LETTER = regex(r"[^\W\d_]")
_MAX_NAME_LENGTH = 200


def vllm_step(name: str) -> StepName | None:
    """``execute_context_1(779)_generation_0(0)``: requests (tokens) of prompts, then of those being answered."""
    match = _VLLM.match(name)
    if match is None or not (int(match[1]) or int(match[3])):
        return None
    prompts, decoded = int(match[1]), int(match[3])
    kind = StepKind.DECODE if not prompts else StepKind.MIXED if decoded else StepKind.PREFILL
    return StepName(kind, prompts, decoded, UNKNOWN if match[2] is None else int(match[2]))


def sglang_step(name: str) -> StepName | None:
    """``step[EXTEND bs=4 toks=512]``, ``step[DECODE bs=32]``."""
    match = _SGLANG.match(name)
    kind = _SGLANG_MODES.get(match[1]) if match else None
    return _with_batch(kind, match[2], match[3]) if match and kind else None


def plain_step(name: str) -> StepName | None:
    """``prefill``, ``decode_17``, ``decode bs=8 tokens=8``; other words in the name say that it is something else."""
    match = _PLAIN.match(name) if len(name) <= _MAX_NAME_LENGTH else None
    if match is None:
        return None
    rest = name[match.end() :]
    batch, tokens = _COUNT.search(rest), _TOKENS.search(rest)
    if _LETTER.search(_OTHER_COUNT.sub("", _COUNT.sub("", rest))):
        return None
    return _with_batch(StepKind[match[1].upper()], batch[2] if batch else None, tokens[1] if tokens else None)


def _with_batch(kind: StepKind, batch: str | None, tokens: str | None) -> StepName:
    count = UNKNOWN if batch is None else int(batch)
    if kind is StepKind.PREFILL:
        return StepName(kind, count, 0, UNKNOWN if tokens is None else int(tokens))
    return StepName(kind, 0, count, 0) if kind is StepKind.DECODE else StepName(kind)


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
