"""Programs on the CPU alone whose operators take longer than they need: by order, by precision, by what they write."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace
from parsers.model.arrays import among, distinct_values, median_of, percentile_of, rows_by
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import contains, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import aten
from rules.findings.base import Category, Finding, Need, rule
from rules.kernels.factorisations import MEANT, is_factorisation
from rules.kernels.operator_roofs import shown_shapes, work_of
from rules.losses.at_once import FASTEST_READ
from rules.losses.cpu_work import (
    MAX_NAMED,
    MIN_SHARE,
    MIN_STEPS,
    CpuRule,
    active_dropouts,
    line_or_operator,
    longest_of,
    named_shares,
)
from rules.losses.lost_time import evidence_of
from rules.remedies.cpu_work import FALLBACK_CONVOLUTION, IN_SINGLE_PRECISION, NO_ATTENTION_DROPOUT
from rules.remedies.kernels import FUSED_ATTENTION, LONG_SIDES, SAME_ORDER
from rules.wording.words import shortened, times_said

STRIDES = "Input Strides"  # as PyTorch's profiler calls them
MIN_ELEMENTS = 1_024  # smaller tensors come from a cache in any order


def orders_differ(trace: Trace, event: int) -> bool:
    """Whether the largest tensors of one call lie in memory in different orders: neighbours of one are far apart in
    another. Not known, and so not told, where strides were not recorded; the file is read for them.
    """
    shapes, strides = (
        _lists(each)
        for each in (trace.text_attribute(Attribute.INPUT_DIMS, event), trace.arguments(event).get(STRIDES))
    )
    tensors = [
        (shape, stride)
        for shape, stride in zip(shapes, strides, strict=False)
        if shape and len(shape) == len(stride) and all(isinstance(each, int) for each in (*shape, *stride))
    ]
    largest = max((math.prod(shape) for shape, _ in tensors), default=0)
    if largest < MIN_ELEMENTS:
        return False
    innermost = {
        min((place for place, side in enumerate(shape) if side > 1), key=stride.__getitem__) - len(shape)
        for shape, stride in tensors
        if math.prod(shape) == largest and 0 not in stride
    }
    return len(innermost) > 1


def _lists(stated: Any) -> list[list[Any]]:
    try:
        read = json.loads(stated) if isinstance(stated, str) else stated
    except ValueError:
        return []
    return [each if isinstance(each, list) else [] for each in read] if isinstance(read, list) else []


# as what they read and write: on one busy core sums of tensors in one order take 3 times as long as at FASTEST_READ, in
# two orders 15 times, and a softmax over three numbers 26 times where one over long columns takes 4
MIN_TIMES_AS_LONG = 8
MIN_BYTES = 1 << 20  # that a call reads and writes: with less, calling it takes most of its time
QUICK_PERCENTILE = 25  # of the calls of one operator and shape: others were interrupted
MAX_SHORT = 16  # numbers in the last side: a core computes as many or half as many at once
_FORWARD_SOFTMAX = frozenset(("aten::_softmax", "aten::_log_softmax"))
_SIMPLE = _FORWARD_SOFTMAX | {
    "aten::add", "aten::add_", "aten::sub", "aten::sub_", "aten::mul", "aten::mul_", "aten::div", "aten::div_",
    "aten::copy_", "aten::relu", "aten::relu_", "aten::clamp", "aten::clamp_min", "aten::where", "aten::masked_fill",
    "aten::maximum", "aten::minimum",
}  # fmt: skip


@rule
class CpuSlowOrder(CpuRule):
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

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace, table = time.trace, time.trace.events
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
        short = name in _FORWARD_SOFTMAX
        dims = shown_shapes(trace.text_attribute(Attribute.INPUT_DIMS, worst))
        calls, least = slow[0]
        step = f"{duration(took / time.steps)} of the {duration(time.step_ns / time.steps)} of a step"
        yield self.lost(
            time,
            lost,
            f"{name} works along a short side"
            if short
            else f"{name} reads tensors in different memory orders",
            took=took,
            account=f"{name} of {dims} takes {duration(float(median_of(table.duration[calls])))} a call. Reading and "
            f"writing its tensors takes {duration(least / len(calls))} at the speed of a core. "
            + ("" if short else "By their strides, they lie in memory in different orders. ")
            + f"Such operators take {step}.",
            remedy=LONG_SIDES if short else SAME_ORDER,
            culprit=line_or_operator(time, name, spans),
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
        quick = float(percentile_of(table.duration[events[rows]], QUICK_PERCENTILE))
        if quick >= MIN_TIMES_AS_LONG * least and _is_awkward(trace, int(events[rows[0]])):
            found.append((events[rows], least * len(rows)))
    return found


def _is_awkward(trace: Trace, event: int) -> bool:
    """Whether a softmax works along few numbers, or another operator on tensors in different memory orders."""
    if trace.name(event) not in _FORWARD_SOFTMAX:
        return orders_differ(trace, event)
    shape = json.loads(trace.text_attribute(Attribute.INPUT_DIMS, event))[0]
    return bool(shape) and shape[-1] <= MAX_SHORT


LEFT = 0.5  # half the bytes, and twice as many numbers in a vector register
CONVOLUTION_LEFT = 0.2  # oneDNN has no convolution in float64: one network took 4.1 to 5.5 times as long
_MANY = regex(r"[2-9]|\d\d")  # in a list of shapes: a side longer than 1


@rule
class CpuDoublePrecision(CpuRule):
    id = "cpu-double-precision"
    category = Category.FP64
    explanation = f"""
What it found
    Only the CPU was recorded, and its operators compute with 64-bit numbers.

Why it costs time
    A vector register holds half as many of them, and each moves twice the bytes. PyTorch has no fast convolution for
    float64 at all. In deep learning it is usually an accident: NumPy's arrays are float64 by default, and one such
    tensor turns everything it touches into float64.

How it decides
    By the types of the operators' inputs, which PyTorch's profiler records with record_shapes=True; without them by
    the names of the convolutions that PyTorch falls back to, if they have a backward pass: for one small input, PyTorch
    falls back to them as well. {percent(LEFT)} of their time is taken to remain, {percent(CONVOLUTION_LEFT)} of a
    convolution's. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if
    fewer than {MIN_STEPS} steps were found. Where factorisations and triangular solves take {percent(MEANT)} of the
    time in double precision, that is usually meant, and nothing is reported either.

What to try
    Convert the input and the model to float32, and find out where the first float64 tensor comes from.

When it is wrong
    When the computation needs double precision, as simulations, solvers and some statistics do. Without recorded
    types, a build of PyTorch without oneDNN looks the same.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace = time.trace
        event, spent = time.spent(time.activity.operators, time.computing)
        types = trace.attribute(Attribute.INPUT_TYPES, event, -1)
        falls_back = named(trace, event, FALLBACK_CONVOLUTION.match)
        with_types = bool((types >= 0).any())
        doubles = [
            each for each in distinct_values(types[types >= 0]).tolist() if _in_double(trace.strings[each])
        ]
        trained = falls_back & named(trace, event, lambda name: name.endswith("backward"))
        mine = np.isin(types, doubles) & ~_of_single_numbers(trace, event)
        mine = mine if with_types else falls_back & trained.any()
        left = np.where(falls_back, CONVOLUTION_LEFT, LEFT)[mine]
        took = int(spent[mine].sum())
        saved = min(round(float((spent[mine] * (1 - left)).sum())), time.step_ns)
        if saved < MIN_SHARE * time.step_ns:
            return
        if spent[mine & named(trace, event, is_factorisation)].sum() >= MEANT * took:
            return
        longest = time.by_name(event[mine], spent[mine])
        name = trace.name(longest[0][0])
        what = "Operators compute with 64-bit numbers" if with_types else "Convolutions take a slow path"
        why = (
            ""
            if with_types
            else " PyTorch takes this path for float64, or for one small input at a time; which numbers they are was "
            "not recorded."
        )
        yield self.lost(
            time,
            saved,
            what,
            took=min(took, time.step_ns),
            account=f"The longest are {named_shares(trace, longest, took)}. In float32 they would take about "
            f"{duration((took - saved) / time.steps)} of a step instead of {duration(took / time.steps)}.{why}",
            remedy=IN_SINGLE_PRECISION,
            culprit=line_or_operator(time, shortened(name, 120)),
            evidence=evidence_of(trace, np.array([each for each, _ in longest[:MAX_NAMED]], np.int64)),
            unknown=("Whether the computation needs double precision.",),
            confidence="medium" if with_types else "low",
        )


def _of_single_numbers(trace: Trace, events: I64) -> BOOL:
    """Which operators are handed no tensor of more than one element, by shapes: Python's numbers are 64-bit."""
    dims = trace.attribute(Attribute.INPUT_DIMS, events, -1)
    single = [
        each for each in distinct_values(dims[dims >= 0]).tolist() if not _MANY.search(trace.strings[each])
    ]
    return np.asarray(np.isin(dims, single))


def _in_double(types: str) -> bool:
    """Whether an operator's tensors are float64, by the list of its inputs' types."""
    return '"double"' in types and '"float"' not in types


# of the products of the scores, which stay in the cache; one program: 2.5 times faster in all
PRODUCTS_LEFT = 0.5
_ATTENTION_SOFTMAX = aten("_softmax _safe_softmax _softmax_backward_data")
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
    the two is counted, and {percent(1 - PRODUCTS_LEFT)} of the products beside it, but no dropouts that are active
    though nothing is trained: cpu-active-dropout counts them. Below {percent(MIN_SHARE)} of the
    step nothing is reported, nor if fewer than {MIN_STEPS} steps were found.

What to try
    torch.nn.functional.scaled_dot_product_attention. If it is called already: on the CPU it is fused only without
    dropout of the scores.

When it is wrong
    If the program needs the scores themselves.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        found = _scores(time)
        lost = min(found.between_ns + round((1 - PRODUCTS_LEFT) * found.products_ns), time.step_ns)
        if lost < MIN_SHARE * time.step_ns:
            return
        trace, steps, took = time.trace, time.steps, found.between_ns + found.products_ns
        often = times_said(len(found.softmax) / steps).capitalize()
        is_called = _is_called(time, found.softmax)
        begins, ends = trace.events.spans(found.softmax)
        yield self.lost(
            time,
            lost,
            "Attention writes its scores to memory",
            took=min(took, time.step_ns),
            account=f"{often} a step a softmax or its gradient stands between two "
            f"batched products. What lies between them takes {duration(found.between_ns / steps)} of a step, the "
            f"products beside it {duration(found.products_ns / steps)}."
            + (
                " scaled_dot_product_attention is called, but not fused: on the CPU it is fused only without dropout."
                if is_called
                else ""
            ),
            remedy=NO_ATTENTION_DROPOUT if is_called else FUSED_ATTENTION,
            culprit=line_or_operator(time, "aten::_softmax", (np.sort(begins), np.sort(ends))),
            evidence=evidence_of(trace, found.softmax[:MAX_NAMED]),
            unknown=("How much faster the fused products are: time a step with them.",),
            confidence="medium",
        )


def _scores(time: CpuTime) -> Scores:
    trace = time.trace
    event, spent = time.spent(time.activity.operators, time.computing)
    softmax = named(trace, event, _ATTENTION_SOFTMAX.__contains__)
    batched = named(trace, event, _BATCHED.__contains__)
    product = np.flatnonzero(named(trace, event, _PRODUCTS.__contains__))
    once = product[
        np.diff(event[product], prepend=-1) != 0
    ]  # whatever runs inside of one divides its own time
    over = product[np.diff(event[product], append=-1) != 0]
    at = np.flatnonzero(softmax)
    after = np.searchsorted(once, at)
    inside = (after > 0) & (after < len(once))
    at, after = at[inside], after[inside]
    between = batched[once[after - 1]] & batched[once[after]]
    at, after = at[between], distinct_values(after[between])
    kept = np.where(contains(active_dropouts(time), trace.events.start[event]), 0, spent)
    total = np.concatenate(([0], np.cumsum(kept)))
    between_ns = int((total[once[after]] - total[over[after - 1] + 1]).sum())
    beside = _beside(batched[once], after)
    products_ns = int(spent[among(event, distinct_values(event[once[beside]]))].sum())
    return Scores(between_ns, products_ns, distinct_values(event[at]))


def _beside(batched: BOOL, after: I64) -> BOOL:
    """The batched ones of all products that are next to scores: one on either side, in the backward pass two."""
    found = np.zeros(len(batched), bool)
    for place in (after - 2, after - 1, after, after + 1):
        place = place[(place >= 0) & (place < len(batched))]
        found[place[batched[place]]] = True
    return found


def _is_called(time: CpuTime, softmax: I64) -> bool:
    """Whether one of the softmaxes runs inside scaled_dot_product_attention."""
    trace, events = time.trace, time.activity.of_kind(EventKind.CPU_OP)
    calls = events[named(trace, events, _FUSED.__eq__)]
    return bool((Innermost.of(trace, calls).at(trace.events.start[softmax]) >= 0).any())
