"""A program on the CPU alone whose attention writes its scores to memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, EventKind
from parsers.model.late.dataclass import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Category, Finding, rule
from rules.losses.cpu_rule import CpuRule, line_or_operator
from rules.losses.cpu_work import MAX_NAMED, MIN_SHARE, MIN_STEPS
from rules.losses.lost_time import evidence_of
from rules.remedies.cpu_work import NO_ATTENTION_DROPOUT
from rules.remedies.kernels import FUSED_ATTENTION

PRODUCTS_LEFT = (
    0.5  # of the products of the scores, which stay in the cache; one program: 2.5 times faster in all
)
_SOFTMAX = frozenset(("aten::_softmax", "aten::_safe_softmax", "aten::_softmax_backward_data"))
_BATCHED = frozenset(("aten::bmm", "aten::baddbmm"))
_PRODUCTS = _BATCHED | {"aten::mm", "aten::addmm", "aten::mkldnn_convolution", "aten::mkldnn_linear"}
_FUSED = "aten::scaled_dot_product_attention"


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What lies between the two products of attentions, and these products: ns in all; the softmaxes as events."""

    between_ns: int
    products_ns: int
    softmax: I64


@rule
class CpuWrittenOutAttention(CpuRule):
    """A softmax between two batched matrix products on the CPU."""

    id = "cpu-written-out-attention"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and attention is computed operator by operator: a product, a softmax, another product.

Why it costs time
    The scores of all pairs of positions are written to memory and read again by each operator. A fused attention
    keeps a block of them in the cache.

How it decides
    A softmax, or its gradient, whose nearest matrix products before and after it are batched ones. What lies between
    the two is counted, and {percent(1 - PRODUCTS_LEFT)} of the products beside it. Below {percent(MIN_SHARE)} of the
    step nothing is reported, nor if fewer than {MIN_STEPS} steps were found.

What to try
    torch.nn.functional.scaled_dot_product_attention. If it is called already: on the CPU it is fused only without
    dropout of the scores.

When it is wrong
    If the program needs the scores themselves.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        found = _scores(time)
        lost = min(found.between_ns + round((1 - PRODUCTS_LEFT) * found.products_ns), time.step_ns)
        if lost < MIN_SHARE * time.step_ns:
            return
        trace, steps, took = analysis.trace, time.steps, found.between_ns + found.products_ns
        is_called = _is_called(time, found.softmax)
        begins, ends = trace.events.spans(found.softmax)
        yield self.lost(
            analysis,
            time,
            lost,
            "Attention writes its scores to memory",
            took=min(took, time.step_ns),
            account=f"{len(found.softmax) / steps:,.0f} times a step a softmax or its gradient stands between two "
            f"batched products. What lies between them takes {duration(found.between_ns / steps)} of a step, the "
            f"products beside it {duration(found.products_ns / steps)}."
            + (
                " scaled_dot_product_attention is called, but not fused: on the CPU it is fused only without dropout."
                if is_called
                else ""
            ),
            remedy=NO_ATTENTION_DROPOUT if is_called else FUSED_ATTENTION,
            culprit=line_or_operator(analysis, time, "aten::_softmax", (np.sort(begins), np.sort(ends))),
            evidence=evidence_of(trace, found.softmax[:MAX_NAMED]),
            unknown=("How much faster the fused products are: time a step with them.",),
            confidence="medium",
        )


def _scores(time: CpuTime) -> Scores:
    trace = time.trace
    event, spent = time.spent(time.activity.operators, time.computing)
    softmax = named(trace, event, _SOFTMAX.__contains__)
    batched = named(trace, event, _BATCHED.__contains__)
    product = np.flatnonzero(named(trace, event, _PRODUCTS.__contains__))
    at = np.flatnonzero(softmax)
    after = np.searchsorted(product, at)
    inside = (after > 0) & (after < len(product))
    at, after = at[inside], after[inside]
    between = batched[product[after - 1]] & batched[product[after]]
    at, first, last = at[between], product[after[between] - 1], product[after[between]]
    total = np.concatenate(([0], np.cumsum(spent)))
    pairs = np.unique(np.column_stack((first, last)), axis=0)
    between_ns = int((total[pairs[:, 1]] - total[pairs[:, 0] + 1]).sum()) if len(pairs) else 0
    beside = _beside(event, batched, product, pairs)
    return Scores(between_ns, int(spent[beside].sum()), np.unique(event[at]))


def _beside(event: I64, batched: BOOL, product: I64, pairs: I64) -> BOOL:
    """The batched products next to scores: one on either side, in the backward pass two."""
    found = np.zeros(len(event), bool)
    found[pairs.ravel()] = True
    place = np.searchsorted(product, pairs)
    for side, step in ((0, -1), (1, 1)):
        further = place[:, side] + step
        further = product[further[(further >= 0) & (further < len(product))]]
        found[further[batched[further]]] = True
    return found


def _is_called(time: CpuTime, softmax: I64) -> bool:
    """Whether one of the softmaxes runs inside scaled_dot_product_attention."""
    trace, events = time.trace, time.activity.of_kind(EventKind.CPU_OP)
    calls = events[named(trace, events, _FUSED.__eq__)]
    return bool((Innermost.of(trace, calls).at(trace.events.start[softmax]) >= 0).any())
