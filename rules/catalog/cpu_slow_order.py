"""A program on the CPU alone whose simple operators take many times as long as their memory does."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace
from parsers.model.arrays import rows_by
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Category, Finding, Need, rule
from rules.kernels.memory_orders import orders_differ
from rules.kernels.operator_roofs import shown_shapes, work_of
from rules.losses.at_once import FASTEST_READ
from rules.losses.cpu_rule import CpuRule, line_or_operator
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, longest_of
from rules.remedies.kernels import LONG_SIDES, SAME_ORDER

# as what they read and write: on one busy core sums of tensors in one order take 3 times as long as at FASTEST_READ, in
# two orders 15 times, and a softmax over three numbers 26 times where one over long columns takes 4
MIN_TIMES_AS_LONG = 8
MIN_BYTES = 1 << 20  # that a call reads and writes: with less, calling it takes most of its time
QUICK_PERCENTILE = 25  # of the calls of one operator and shape: others were interrupted
MAX_SHORT = 16  # numbers in the last side: a core computes as many or half as many at once
_SOFTMAX = frozenset(("aten::_softmax", "aten::_log_softmax"))
_SIMPLE = _SOFTMAX | {
    "aten::add", "aten::add_", "aten::sub", "aten::sub_", "aten::mul", "aten::mul_", "aten::div", "aten::div_",
    "aten::copy_", "aten::relu", "aten::relu_", "aten::clamp", "aten::clamp_min", "aten::where", "aten::masked_fill",
    "aten::maximum", "aten::minimum",
}  # fmt: skip


@rule
class CpuSlowOrder(CpuRule):
    """Sums, products, copies and the like of tensors that lie in memory in an awkward order, on the CPU."""

    id = "cpu-slow-order"
    category = Category.SLOW_OPERATOR
    needs = frozenset({Need.CPU_EVENTS, Need.SHAPES})
    explanation = f"""
What it found
    Only the CPU was recorded, and operators that do little more than read and write take many times as long as that.

Why it costs time
    Where tensors lie in memory in different orders, after permute() or transpose(), each number comes from another
    line of the cache. Where the last side has few numbers, each row is started for a handful of them.

How it decides
    By the recorded shapes and types it counts what sums, products, copies and comparisons with a limit on tensors in
    different orders, by their recorded strides, read and write, and what a softmax along at most {MAX_SHORT} numbers
    does, every tensor once. Of each such operator and shape with at least {MIN_BYTES >> 20} MiB a call, a quick call
    (percentile {QUICK_PERCENTILE}) has to take {MIN_TIMES_AS_LONG} times as long as a core needs at
    {FASTEST_READ / 1e9:.0f} GB/s, which remains. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if
    fewer than {MIN_STEPS} steps were found.

What to try
    Keep all tensors in one order, and let the side over which an operator works be long or the first one.

When it is wrong
    If other programs use the same cores all the time.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        trace, table = analysis.trace, analysis.trace.events
        slow = sorted(_slow(time), key=lambda each: -float(table.duration[each[0]].sum()) + each[1])
        if not slow:
            return
        events = np.concatenate([each for each, _ in slow])
        spans = union(*table.spans(events))
        took = time.without_recorder(spans)
        lost = round(took - sum(least for _, least in slow))
        if lost < MIN_SHARE * time.step_ns:
            return
        worst = int(slow[0][0][0])
        name = trace.name(worst)
        short = name in _SOFTMAX
        dims = shown_shapes(trace.text_attribute(Attribute.INPUT_DIMS, worst))
        calls, least = slow[0]
        step = f"{duration(took / time.steps)} of the {duration(time.step_ns / time.steps)} of a step"
        yield self.lost(
            analysis,
            time,
            lost,
            f"{name} works along a short side"
            if short
            else f"{name} reads tensors in different memory orders",
            took=took,
            account=f"{name} of {dims} takes {duration(float(np.median(table.duration[calls])))} a call. Reading and "
            f"writing its tensors takes {duration(least / len(calls))} at the speed of a core. "
            + ("" if short else "By their strides, they lie in memory in different orders. ")
            + f"Such operators take {step}.",
            remedy=LONG_SIDES if short else SAME_ORDER,
            culprit=line_or_operator(analysis, time, name, spans),
            evidence=longest_of(time, spans, name),
            confidence="medium",
        )


def _slow(time: CpuTime) -> list[tuple[I64, float]]:
    """The calls of each operator and shape that is slow, and what reading and writing takes at least for all (ns)."""
    trace, table = time.trace, time.trace.events
    events = time.activity.of_kind(EventKind.CPU_OP)
    events = events[named(trace, events, _SIMPLE.__contains__)]
    events = events[np.lexsort((-table.end[events], table.start[events]))]
    reached = np.maximum.accumulate(np.append(0, table.end[events]))[:-1]
    events = events[(table.end[events] > reached) & (table.start[events] >= time.window[0])]
    events = events[table.end[events] <= time.window[1]]
    columns = (Attribute.INPUT_DIMS, Attribute.INPUT_TYPES)
    keys = [table.name[events].astype(np.int64), *(trace.attribute(each, events, -1) for each in columns)]
    found = []
    for (name, dims, types), rows in rows_by(np.stack(keys, axis=1)):
        if dims < 0:
            continue
        work = work_of(trace.strings[name], trace.strings[dims], trace.strings[types] if types >= 0 else "")
        if work is None or work.moved < MIN_BYTES:
            continue
        least = work.moved / FASTEST_READ * 1e9
        quick = float(np.percentile(table.duration[events[rows]], QUICK_PERCENTILE))
        if quick >= MIN_TIMES_AS_LONG * least and _is_awkward(trace, int(events[rows[0]])):
            found.append((events[rows], least * len(rows)))
    return found


def _is_awkward(trace: Trace, event: int) -> bool:
    """Whether a softmax works along few numbers, or another operator on tensors in different memory orders."""
    if trace.name(event) not in _SOFTMAX:
        return orders_differ(trace, event)
    shape = json.loads(trace.text_attribute(Attribute.INPUT_DIMS, event))[0]
    return bool(shape) and shape[-1] <= MAX_SHORT
