"""Programs on the CPU alone that ask a library for more than they use: slow types, inverses, awkward lengths."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace
from parsers.model.arrays import median_of, percentile_of, rows_by
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.arithmetic.innermost import outermost
from rules.analysis.arithmetic.intervals import union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Category, Finding, rule
from rules.kernels.inverses import BEHIND, MAX_COLUMNS, MIN_ROWS, multiplied_inverses
from rules.kernels.operator_roofs import concrete_inputs, kinds_of_calls, shown_shapes, work_of
from rules.kernels.recorded_shapes import first_shape, single_tensors_in
from rules.losses.at_once import FASTEST_READ, MAX_OF_A_CORE
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, CostlyWork, gradients_of
from rules.remedies.costly_forms import NO_FULL_MATRICES, ROUND_LENGTHS, SOLVE_INSTEAD, in_a_fast_type
from rules.wording.words import times_said

QUICK_PERCENTILE = 25  # of the calls of one operator and shape: others were interrupted


# as a core needs for the same product of float32: products of float64 take twice as long
MIN_TIMES_AS_LONG = 4
_INTEGERS = frozenset({"long int", "long", "int", "short int", "short", "signed char", "unsigned char"})
_HALVES = {"c10::Half": "float16", "c10::BFloat16": "bfloat16"}
_MULTIPLIES = regex(r"aten::(mm|bmm|addmm|baddbmm|mv|addmv|convolution)$")


@rule
class CpuSlowTypes(CostlyWork):
    id = "cpu-slow-types"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and matrices of integers or of 16-bit numbers are multiplied many times as slowly as a
    core multiplies float32.

Why it costs time
    The libraries for matrix products know float32 and float64. For integers PyTorch has a plain loop, and so it has for
    16-bit numbers where the CPU has no instructions for them.

How it decides
    By the recorded shapes and types it counts what products of integers, float16 and bfloat16 compute, read and write.
    Of each operator, shape and type a quick call (percentile {QUICK_PERCENTILE}) has to take {MIN_TIMES_AS_LONG} times
    as long as a core needs for it in float32 at {MAX_OF_A_CORE / 1e9:.0f} GFLOP/s and {FASTEST_READ / 1e9:.0f} GB/s,
    with what calling an operator takes, which remains. Below {percent(MIN_SHARE)} of the step nothing is reported, nor
    if fewer than {MIN_STEPS} steps were found.

What to try
    Convert to float32 before the product. bfloat16 is fast on CPUs with amx_bf16 or avx512_bf16.

When it is wrong
    If integers have to be exact beyond what float64 can count, or memory has no room for larger numbers.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace, table = time.trace, time.trace.events
        slow = sorted(_slow_products(time), key=lambda each: -float(table.duration[each[0]].sum()))
        if not slow:
            return
        calls, least = slow[0]
        events = np.concatenate([each for each, _ in slow])
        remains = sum(ns for _, ns in slow) / max(float(table.duration[events].sum()), 1.0)
        worst = int(calls[0])
        kind = _slow_type(trace.text_attribute(Attribute.INPUT_TYPES, worst))
        dims = shown_shapes(trace.text_attribute(Attribute.INPUT_DIMS, worst))
        yield from self.told_of(
            time,
            union(*trace.events.spans(events)),
            remains,
            f"Slow code multiplies matrices of {_HALVES.get(kind, 'integers')}",
            f"{trace.name(worst)} of {dims} takes {duration(float(median_of(table.duration[calls])))} a call; for "
            f"float32 a fast core needs {duration(least / len(calls))}.",
            remedy=in_a_fast_type(integers=kind not in _HALVES),
            unknown=("How fast this CPU multiplies float32: time one product.",),
        )


def _slow_type(types: str) -> str:
    """The type of the tensors that an operator multiplies, if it is no float32 or float64; else empty."""
    try:
        found = [each for each in json.loads(types) if each in _INTEGERS or each in _HALVES]
        return "" if {"float", "double"} & set(json.loads(types)[:2]) else str(found[0]) if found else ""
    except (ValueError, TypeError):
        return ""


def _slow_products(time: CpuTime) -> list[tuple[I64, float]]:
    """The calls of each product, shape and type that is slow, and what all of them need in float32 (ns)."""
    trace, table = time.trace, time.trace.events
    events = _inside(time, _MULTIPLIES.match)
    found = []
    for (name, dims, types), rows in rows_by(kinds_of_calls(trace, events)):
        if dims < 0 or types < 0 or not _slow_type(trace.strings[types]):
            continue
        numbers = partial(concrete_inputs, trace, int(events[rows[0]]))
        work = work_of(trace.strings[name], trace.strings[dims], values=numbers)
        if work is None:
            continue
        least = max(work.operations / MAX_OF_A_CORE, work.moved / FASTEST_READ) * 1e9 + time.call_ns
        quick = float(percentile_of(table.duration[events[rows]], QUICK_PERCENTILE))
        if quick >= MIN_TIMES_AS_LONG * least:
            found.append((events[rows], least * len(rows)))
    return found


def _inside(time: CpuTime, wanted: Any) -> I64:
    """The operators of these names in the window, by start, those left out that lie inside another of them."""
    trace, table = time.trace, time.trace.events
    events = time.activity.of_kind(EventKind.CPU_OP)
    events = outermost(trace, events[named(trace, events, wanted)])
    return np.asarray(events[(table.start[events] >= time.window[0]) & (table.end[events] <= time.window[1])])


# of n rows: an LU factor takes 2/3 of n^3 operations, an inverse 2 n^3 and its gradient 4 n^3
LEFT_OF_INVERTING = 1 / 9


@rule
class CpuInverses(CostlyWork):
    id = "cpu-inverses"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and a matrix is inverted only to be multiplied by a vector or by few columns.

Why it costs time
    Solving for the few columns needs a factorization; the inverse solves for as many columns as the matrix has, and its
    gradient multiplies matrices of that size again. It is less exact, too.

How it decides
    A matrix of at least {MIN_ROWS} rows is inverted, and at most {BEHIND} operators later one of its size is multiplied
    by at most {percent(MAX_COLUMNS)} as many columns. Determinants of matrices of this size count as well, and the
    gradients of both, where sequence numbers were recorded; {percent(LEFT_OF_INVERTING)} of it all remains at best.
    Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found. Shapes
    must be recorded.

What to try
    torch.linalg.solve, or torch.linalg.cholesky and torch.cholesky_solve where the matrix is symmetric and positive
    definite.

When it is wrong
    If the inverse itself is a result, or is multiplied again and again while the matrix stays the same.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace = time.trace
        inverses, determinants, sizes = multiplied_inverses(trace, time.operators)
        if not len(inverses):
            return
        forward = np.concatenate((inverses, determinants))
        events = np.concatenate((forward, gradients_of(time, forward)))
        times = len(inverses) / time.steps
        yield from self.told_of(
            time,
            union(*trace.events.spans(events)),
            LEFT_OF_INVERTING,
            "Matrices are inverted to be multiplied by a vector",
            f"{times_said(times).capitalize()} a step a matrix of {max(sizes):,} rows is "
            "inverted and then multiplied by fewer columns than it has"
            + (", and its determinant factorizes it once more." if len(determinants) else "."),
            remedy=SOLVE_INSTEAD,
            unknown=("Whether the inverse is needed for something else.",),
        )


MIN_TIMES_LONGER = 2  # one side than the other: of a matrix that is nearly square, little more is computed
# of as many vectors as the matrix's shorter side has of its longer one: of six shapes 0.8 to 2.2 times that part of
# the time remained
LEFT_OF_FULL = 0.8
_DECOMPOSES = regex(r"aten::linalg_svd$")
_READS_PARTS = regex(r"aten::(slice|select|narrow|detach|alias|numpy_T|t|mT|transpose|permute|adjoint|mH)$")


@rule
class CpuFullDecompositions(CostlyWork):
    id = "cpu-full-decompositions"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and the singular value decomposition of a long matrix is computed with full matrices.

Why it costs time
    A matrix of 1,200 rows and 64 columns has 64 singular values. With full matrices 1,200 vectors of 1,200 numbers are
    computed, of which 1,136 belong to no singular value.

How it decides
    By the recorded arguments of torch.linalg.svd, of matrices of which one side is at least {MIN_TIMES_LONGER} times as
    long as the other, where nothing but views and parts of the full square matrix is taken behind it. {LEFT_OF_FULL}
    times the part that the shorter side is of the longer one remains at best. Below {percent(MIN_SHARE)} of the step
    nothing is reported, nor if fewer than {MIN_STEPS} steps were found. Shapes must be recorded.

What to try
    torch.linalg.svd(x, full_matrices=False).

When it is wrong
    If the vectors without a singular value are needed, as for a null space.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace, table = time.trace, time.trace.events
        found, remains, shown = [], 0.0, ""
        events = _inside(time, _DECOMPOSES.match)
        for _, rows in rows_by(kinds_of_calls(trace, events)):
            first = int(events[rows[0]])
            shape, asked = first_shape(trace, first), concrete_inputs(trace, first)
            if len(shape) < 2 or len(asked) < 2 or asked[1] != "True":
                continue
            short, long = sorted(shape[-2:])
            if long < MIN_TIMES_LONGER * short or _is_read_whole(time, first, long):
                continue
            found.append(events[rows])
            remains += LEFT_OF_FULL * short / long * float(table.duration[events[rows]].sum())
            shown = shown or f"{shape[-2]:,} by {shape[-1]:,}"
        if not found:
            return
        mine = np.concatenate(found)
        yield from self.told_of(
            time,
            union(*trace.events.spans(mine)),
            remains / max(float(table.duration[mine].sum()), 1.0),
            "Singular vectors are computed that nobody uses",
            f"torch.linalg.svd of a matrix of {shown} numbers is called with full_matrices=True.",
            remedy=NO_FULL_MATRICES,
            unknown=("Whether the vectors without a singular value are needed.",),
        )


def _is_read_whole(time: CpuTime, decomposition: int, side: int) -> bool:
    """Whether any operator until the next decomposition reads all of a square matrix of this side."""
    trace, table, operators = time.trace, time.trace.events, time.operators
    behind = operators[table.start[operators] > table.end[decomposition]]
    again = np.flatnonzero(named(trace, behind, _DECOMPOSES.match))
    behind = behind[: int(again[0])] if len(again) else behind
    behind = behind[~named(trace, behind, _READS_PARTS.match)]
    return any(
        (side, side) in {each[-2:] for each in single_tensors_in(text)} for text in _dims_of(trace, behind)
    )


def _dims_of(trace: Trace, events: I64) -> list[str]:
    """Each text of shapes of some operators once."""
    found = np.unique(trace.attribute(Attribute.INPUT_DIMS, events, -1), return_index=True)[0]
    return [trace.strings[each] for each in found.tolist() if each >= 0]


MIN_PRIME = 500  # of 101 and more, transforms take 2.5 times as long, of 5,003 and more ten times
LEFT_OF_AWKWARD = 0.1
MIN_LENGTH = 1_000  # of a transform: shorter ones are computed by the definition
_TRANSFORMS = regex(r"aten::_fft_(r2c|c2r|c2c)$")


@rule
class CpuAwkwardTransforms(CostlyWork):
    id = "cpu-awkward-transforms"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and Fourier transforms are computed whose length has a large prime factor.

Why it costs time
    A fast Fourier transform takes a length apart into its factors. For a large prime one it computes a convolution by
    several transforms of more than twice the length, in a way that no vector unit likes.

How it decides
    By the recorded shapes, along the side that was transformed: a length of at least {MIN_LENGTH:,} with a prime factor
    of at least {MIN_PRIME}. {percent(LEFT_OF_AWKWARD)} of the time remains at best. Below {percent(MIN_SHARE)} of the
    step nothing is reported, nor if fewer than {MIN_STEPS} steps were found. Shapes must be recorded.

What to try
    Pad to a power of two, or to a length with the factors 2, 3 and 5 only.

When it is wrong
    If the frequencies of exactly this length are needed.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace = time.trace
        found, lengths = [], set()
        events = _inside(time, _TRANSFORMS.match)
        for _, rows in rows_by(kinds_of_calls(trace, events)):
            length = _transformed(trace, int(events[rows[0]]))
            if length >= MIN_LENGTH and _largest_prime(length) >= MIN_PRIME:
                found.append(events[rows])
                lengths.add(length)
        if not found:
            return
        longest = max(lengths)
        prime = _largest_prime(longest)
        yield from self.told_of(
            time,
            union(*trace.events.spans(np.concatenate(found))),
            LEFT_OF_AWKWARD,
            "Fourier transforms of an awkward length",
            f"{longest:,} "
            + ("is a prime number." if prime == longest else f"has the prime factor {prime:,}."),
            remedy=ROUND_LENGTHS,
            unknown=("Whether the program needs the frequencies of exactly this length.",),
        )


def _transformed(trace: Trace, event: int) -> int:
    """How many numbers a transform has along its last side; 0 where that was not recorded."""
    shape, asked = first_shape(trace, event), concrete_inputs(trace, event)
    try:
        if trace.name(event).endswith("c2r"):
            return int(asked[3])
        side = json.loads(asked[1])[-1] if len(asked) > 1 and asked[1] else -1
        return int(shape[side])
    except (IndexError, ValueError, TypeError):
        return 0


def _largest_prime(number: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            largest, number = factor, number // factor
        factor += 1
    return max(largest, number)
