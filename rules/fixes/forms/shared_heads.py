"""Copies for the sake of a library: keys and values for the heads that share them, spectra that are shifted."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.fixes.forms.written import called_in_order
from rules.kernels.recorded_shapes import Shapes, elements, fitting

FAR = 16  # operators between the copy and the attention: turning and scaling it, and a softmax before the values
FEW_QUERIES = 16  # for a head: attention then does little but read keys and values
_REPEATS = frozenset({"aten::repeat_interleave", "aten::repeat"})
_WRITES = aten("reshape contiguous clone flatten")
_ATTENTION = frozenset({"aten::scaled_dot_product_attention", "aten::matmul"})


@dataclass(frozen=True, slots=True, eq=False)
class SharedHeads:
    """Operators that copy keys or values, with the expand before each, and the attention that reads them.

    ``reading`` is that of it which has so few queries that it does little but read them.
    """

    copying: I64
    attention: I64
    reading: I64


@derived
def shared_heads(analysis: Analysis) -> SharedHeads:
    """Where keys or values are repeated to the number of heads before an attention."""
    trace = analysis.trace
    copying, attention, reading = ([np.empty(0, np.int64)] for _ in range(3))
    for operators in called_in_order(analysis):
        expands = named(trace, operators, "aten::expand".__eq__)
        is_attention = named(trace, operators, _ATTENTION.__contains__)
        repeats = np.flatnonzero(named(trace, operators, _REPEATS.__contains__))
        writes = np.flatnonzero(named(trace, operators, _WRITES.__contains__))
        writes = writes[(writes > 0) & expands[writes - 1]]
        widened = fitting(trace, operators[writes - 1], operators[writes], fits=_widens)
        for places, fits, before in ((repeats, _repeats, 0), (writes[widened], _are_as_many, 1)):
            for far in range(1, FAR + 1):
                mine = places[places + far < len(operators)]
                mine = mine[is_attention[mine + far]]
                mine = mine[fitting(trace, operators[mine], operators[mine + far], fits=fits)]
                copying += [operators[mine - each] for each in range(before + 1)]
                attention.append(operators[mine + far])
                reading.append(attention[-1][fitting(trace, attention[-1], fits=_has_few_queries)])
    return SharedHeads(*map(np.concatenate, (copying, attention, reading)))


def _has_few_queries(attention: Shapes) -> bool:
    return attention[0][-2] <= FEW_QUERIES


def _widens(expanded: Shapes, written: Shapes) -> bool:
    """Whether an expand adds copies along a dimension of its own: [B, G, 1, T, D] to [B, G, 4, T, D]."""
    one, many = expanded[0], written[0]
    apart = [place for place, (few, more) in enumerate(zip(one, many, strict=True)) if few != more]
    return len(one) == 5 and apart == [2] and one[2] == 1


def _repeats(source: Shapes, attention: Shapes) -> bool:
    one = source[0]
    return any(
        len(one) == len(read) == 4 and elements(read) >= 2 * elements(one) and _is_of(one, read)
        for read in attention[1:3]
    )


def _are_as_many(source: Shapes, attention: Shapes) -> bool:
    one = source[0]
    return any(
        len(read) == 4 and elements(read) == elements(one) and _is_of(one, read) for read in attention[1:3]
    )


def _is_of(one: list[int], read: list[int]) -> bool:
    """Whether what an attention reads has as many sequences as another tensor, of that length and size."""
    return read[0] == one[0] and sorted(read[-2:]) == sorted(one[-2:]) and elements(read) % elements(one) == 0


NEAR = 2  # operators between a shift and the transform
_SHIFTS = aten("fft_fftshift fft_ifftshift roll")
_TRANSFORM = "aten::fft_"


@derived
def shifted_spectra(analysis: Analysis) -> I64:
    """The operators that shift what a Fourier transform right before or behind them gives or reads."""
    trace, found = analysis.trace, [np.empty(0, np.int64)]
    for operators in called_in_order(analysis):
        shifts = named(trace, operators, _SHIFTS.__contains__)
        transforms = named(trace, operators, lambda name: name.startswith(_TRANSFORM)) & ~shifts
        near = distinct_values(np.add.outer(np.flatnonzero(transforms), np.arange(-NEAR, NEAR + 1)))
        near = near[(near >= 0) & (near < len(operators))]
        found.append(operators[near[shifts[near]]])
    return np.concatenate(found)
