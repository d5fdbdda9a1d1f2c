"""Tensors that are made from Python's numbers one after another, as where rows of a batch are built in a loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parsers.model import BOOL, I64, Trace
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.intervals import Intervals

MIN_TIMES = 32  # tensors in a row: a few settings and labels are made so everywhere
MAX_APART_NS = 50_000  # between two calls: what takes longer is work of its own, such as a simulator's
_MADE = "aten::lift_fresh"  # called by torch.tensor, once for each tensor
_AROUND = regex(
    r"(aten::(empty|to|_to_copy|copy_|lift_fresh|detach_?|unsqueeze|view|reshape|clone|float|alias|stack|cat|concat"
    r"|hstack|vstack)|detach_)$"
)


class FromPython(NamedTuple):
    """Rows of tensors made from Python's numbers: how many, by how many calls in all, and the time of each row."""

    made: int
    calls: int
    spans: Intervals


def from_python(trace: Trace, operators: I64) -> FromPython:
    """Of outermost operators of one thread, by start, the rows in which ``torch.tensor`` is called again and again.

    With whatever only moves and joins what was made, and with the Python code in between.
    """
    start, end = trace.events.spans(operators)
    around = named(trace, operators, _AROUND.match)
    made = named(trace, operators, _MADE.__eq__)
    first, behind = _rows(around, start[1:] - end[:-1] <= MAX_APART_NS)
    before = np.append(0, np.cumsum(made))
    count = before[behind] - before[first]
    many = count >= MIN_TIMES
    calls = int((behind - first)[many].sum())
    return FromPython(int(count[many].sum()), calls, (start[first[many]], end[behind[many] - 1]))


def _rows(wanted: BOOL, close: BOOL) -> tuple[I64, I64]:
    """Where rows of wanted neighbours begin, and behind which place each ends."""
    goes_on = wanted[1:] & wanted[:-1] & close
    first = np.flatnonzero(wanted & ~np.append(False, goes_on))
    last = np.flatnonzero(wanted & ~np.append(goes_on, False))
    return first, last + 1
