"""Whether memory grows from step to step: what is held when each step ends, and by how much that rises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parsers.model.arrays import I64, Array
from parsers.model.memory import Memory
from parsers.model.names.steps import step_number
from rules.analysis.analysis import Analysis

LEAST_STEPS = 3
FEW_DIFFERENCES = 4  # fewer must agree well, to tell growth from warm-up
LEAST_GROWTH = 0.005  # of the peak, a step: after two hundred steps as much again
LEAST_STEADINESS = 0.5  # the smallest difference is at least this part of the usual one ...
LEAST_AGREEMENT = 0.9  # ... and of the largest one, where there are few
_SHORTEST_STEP = 0.1  # of the median: what is shorter was cut off by the end of the recording


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes held when each step ended, and how many more each leaves than the one before; 0 where it does not grow."""

    ends: tuple[int, ...]
    after_steps: tuple[int, ...]
    per_step: int


def growth(ends: Sequence[int], time: I64, held: Array, peak: float) -> Growth:
    """How memory develops over steps; ``time`` ascending and ``held`` as they are sampled.

    The first step is left out of the judgement: it makes the optimizer's state and the caches of libraries.
    """
    ends = sorted(ends)
    at = np.searchsorted(time, np.array(ends, np.int64), side="right") - 1
    after = np.where(at >= 0, held[np.maximum(at, 0)] if len(held) else 0, 0).astype(np.int64)
    per_step = 0
    if len(ends) >= LEAST_STEPS:
        more = np.diff(after[1:] if len(ends) > LEAST_STEPS else after)
        least, usual = float(more.min()), float(np.median(more))
        agree = len(more) >= FEW_DIFFERENCES or least >= LEAST_AGREEMENT * float(more.max())
        if usual > LEAST_GROWTH * peak and least >= LEAST_STEADINESS * usual and agree:
            per_step = round(float(more.mean()))
    return Growth(tuple(ends), tuple(after.tolist()), per_step)


def step_ends(analysis: Analysis, rank: int | None, memory: Memory | None) -> tuple[int, ...]:
    """When steps end, ns: those that the snapshot annotates, else those of the timeline."""
    marks = () if memory is None else memory.marks
    ranges = [(mark.start, mark.end) for mark in marks if step_number(mark.name) is not None] or [
        (step.start, step.end) for step in analysis.steps if rank is None or step.rank in (None, rank)
    ]
    if not ranges:
        return ()
    usual = float(np.median([end - start for start, end in ranges]))
    return tuple(end for start, end in ranges if end - start >= _SHORTEST_STEP * usual)
