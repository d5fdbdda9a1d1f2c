"""Ranks that are found by sorting twice: the second sort turns the order around that the first one gives."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times
from rules.fixes.forms.written import called_in_order, calls_of, costly_calls
from rules.kernels.recorded_shapes import Shapes, fitting
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

LEFT = 0.1  # of a sort: what comparing, or writing each place once, takes
_SORTS = frozenset({"aten::sort", "aten::argsort"})
_PICKS = frozenset(
    f"aten::{name}" for name in ("gather", "index", "index_select", "take_along_dim", "select")
)
_ORDER = ('["long', '["int')  # the type of what is sorted, if that is an order

_CODE = """target = scores.gather(1, wanted)                 # the rank of one item in each row
rank = (scores > target).sum(1)                   # not scores.argsort(1, descending=True).argsort(1).gather(1, wanted)

order = scores.argsort(1, descending=True)        # the ranks of all items
ranks = torch.empty_like(order).scatter_(1, order, torch.arange(n, device=order.device).expand_as(order))"""


@fix
class RankWithoutSorting:
    id = "rank-without-sorting"
    explanation = """
When it applies
    aten::sort or aten::argsort is called with whole numbers right after another sort of the same shape, which gives
    such an order. Both take at least 5 % of the GPU's time. Shapes and types must be recorded.

What is changed in the replay
    A tenth of the second sort's time on the GPU remains; of the first one's as well if some of the ranks are picked
    next.

What makes it more or less
    How long the rows are: short ones are sorted about as quickly as they are read.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        first, second, picked = _sorted_twice(analysis)
        _, share = costly_calls(analysis, replay, np.concatenate((first, second)))
        if not share:
            return
        unneeded = np.concatenate((second, first[picked]))
        yield Proposal(
            title=f"Find ranks without sorting twice: {percent(share)} of the GPU's time sorts rows, then their order",
            categories=(Category.SLOW_OPERATOR,),
            culprit="aten::argsort",
            problem="Ranks are found by sorting twice",
            remedy=pytorch_remedy(
                "The rank of one item is how many others have a higher score: compare and count.",
                "For the ranks of all items, write each place where the first sort says: scatter_.",
                code=_CODE,
            ),
            expected=durations_times(calls_of(analysis, unneeded)[replay.device.launch], LEFT),
        )


def _sorted_twice(analysis: Analysis) -> tuple[I64, I64, BOOL]:
    """Sorts, those of the orders that they give, and whether some of these ranks are picked next."""
    trace = analysis.trace
    found: list[tuple[I64, I64, BOOL]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))]
    if {Attribute.INPUT_DIMS, Attribute.INPUT_TYPES} <= trace.attributes.keys():
        for called in called_in_order(analysis):
            sorts = named(trace, called, _SORTS.__contains__)
            at = np.flatnonzero(sorts[:-1] & sorts[1:])
            at = at[_of_order(trace, called[at + 1]) & ~_of_order(trace, called[at])]
            at = at[fitting(trace, called[at], called[at + 1], fits=_are_alike)]
            behind = np.minimum(at + 2, len(called) - 1)
            picked = named(trace, called[behind], _PICKS.__contains__) & (behind > at + 1)
            found.append((called[at], called[at + 1], picked))
    first, second, picked = (np.concatenate(each) for each in zip(*found, strict=True))
    return first, second, picked


def _of_order(trace: Trace, operators: I64) -> BOOL:
    """Which operators are given whole numbers first."""
    types = trace.attribute(Attribute.INPUT_TYPES, operators, -1)
    return np.array([each >= 0 and trace.strings[each].startswith(_ORDER) for each in types.tolist()], bool)


def _are_alike(sorted_first: Shapes, sorted_next: Shapes) -> bool:
    return sorted_first[0] == sorted_next[0]
