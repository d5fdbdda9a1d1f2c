"""Where a program's 64-bit numbers come from, and what only converts between them and narrower ones."""

from __future__ import annotations

import json

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace, derived
from parsers.model.arrays import per_value
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of

_DOUBLE = "double"
_NARROWER = frozenset({"float", "c10::BFloat16", "c10::Half"})


@dataclass(frozen=True, slots=True, eq=False)
class DoublePrecision:
    """``begins``: the first operator of a step that takes 64-bit tensors beside narrower ones, -1 where none does.

    ``converts``: which recorded operations of the replay only convert between both.
    """

    begins: int
    converts: BOOL


@derived
def double_precision(analysis: Analysis) -> DoublePrecision:
    """By the types that operators were handed, which profilers note with their shapes."""
    trace, replay = analysis.trace, replay_of(analysis)
    device, operator = replay.device, surroundings_of(analysis).operator
    mixes = _mixes(trace, operator)
    copies = np.zeros(len(operator), bool)
    copies[mixes] = named(trace, operator[mixes], "aten::copy_".__eq__)
    return DoublePrecision(_first(analysis, mixes), copies[device.launch[device.member_of]])


def _first(analysis: Analysis, mixes: BOOL) -> int:
    """What the program called, in the middle one of the steps."""
    replay = replay_of(analysis)
    mine = np.flatnonzero(mixes & (replay.host.step == replay.steps // 2))
    mine = mine if len(mine) else np.flatnonzero(mixes)
    if not len(mine):
        return -1
    first = int(mine[np.argmin(replay.host.start[mine])])
    around = surroundings_of(analysis)
    called = int(around.whole_operator[first])
    return called if called >= 0 else int(around.operator[first])


def _mixes(trace: Trace, operators: I64) -> BOOL:
    """Which of these, -1 for none, are handed tensors of 64-bit numbers and of narrower ones.

    A single number without dimensions widens nothing.
    """
    found = np.zeros(len(operators), bool)
    known = operators >= 0
    columns = (Attribute.INPUT_TYPES, Attribute.INPUT_DIMS)
    stated = np.stack([trace.attribute(each, operators[known], -1) for each in columns], axis=1)

    def both(row: list[int]) -> bool:
        if min(row) < 0:
            return False
        types, dims = (json.loads(trace.strings[each]) for each in row)
        kinds = {kind for kind, sizes in zip(types, dims, strict=False) if sizes and isinstance(kind, str)}
        return _DOUBLE in kinds and bool(kinds & _NARROWER)

    found[known] = per_value(stated, both, bool)
    return found
