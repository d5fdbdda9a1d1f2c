"""Operators that are slow by themselves: their kernels reach a small part of what memory or arithmetic units can do."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, EventKind, derived_by
from parsers.model.late import dataclass, regex
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.inside_window import operations
from rules.kernels.operator_roofs import OperatorRoof, launched_by, operator_roofs
from rules.terms import Unit, threshold

SLOW_SHARE = threshold(
    "slow-operator-share",
    "an operator counts as slow below this share of what the GPU's memory or arithmetic units can do",
    Unit.SHARE,
    0.1,
    least=0.005,
    most=0.6,
    source="operators of PyTorch on one H100: pointwise, softmax and norms reach 50 to 80 % of the memory's bandwidth, "
    "batch normalisation and enlargement of images 15 to 35 % in channels_last, and 0.3 to 8 % channels first",
)
NORMAL_SHARE = 0.5  # of the roof: the same operators
MASKED = 2.0  # times more work than there is, where nobody knows whether attention is causal
MIN_WINDOW_SHARE = 0.005  # that an operator with one shape takes: others are not looked at
# at the roof: a shorter kernel is limited by its start, and another rule speaks of many of them
MIN_WORK_NS = 2_000.0
UNALIGNED = regex(r"align[12](?!\d)")  # awkward-matrix-shapes says why these are slow


@dataclass(frozen=True, slots=True, eq=False)
class SlowOperators:
    """The slow operators of one device inside the window, those first that lose most, and all their kernels."""

    rows: tuple[OperatorRoof, ...]
    kernels: tuple[I64, ...]  # of each row

    @property
    def lost_ns(self) -> int:
        """What all of them would save on their roofs."""
        return sum(lost_ns(row) for row in self.rows)


def lost_ns(row: OperatorRoof) -> int:
    """What an operator would save if it reached its roof."""
    return int(row.ns * (1 - row.share))


@derived_by
def slow_operators(analysis: Analysis, device: int) -> SlowOperators:
    """Which of the operators that launched a device's kernels are slow; none without shapes or peaks of the GPU."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    least, share = max(int(MIN_WINDOW_SHARE * analysis.window_ns), 1), analysis.thresholds[SLOW_SHARE]

    def may_be_slow(row: OperatorRoof) -> bool:
        return row.share < MASKED * share and row.ns / row.calls * share >= MIN_WORK_NS

    slow = [
        row
        for row in operator_roofs(trace, kernels, least_ns=least, ask=may_be_slow)
        if row.work is not None
        and 0 < row.share < share
        and row.ns / row.calls * row.share >= MIN_WORK_NS
        and not UNALIGNED.search(trace.name(row.kernel))
    ]
    slow.sort(key=lost_ns, reverse=True)
    pairs = launched_by(trace)
    inside = np.isin(pairs.kernel, kernels)
    return SlowOperators(
        tuple(slow), tuple(pairs.kernel[inside & np.isin(pairs.operator, row.events)] for row in slow)
    )
