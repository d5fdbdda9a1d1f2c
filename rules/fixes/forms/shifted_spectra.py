"""Shifts of what Fourier transforms read and give, which only change where the zero frequency stands."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, derived
from parsers.model.arrays import distinct_values
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.fixes.forms.written import called_in_order

FAR = 2  # operators between a shift and the transform
_SHIFTS = frozenset({"aten::fft_fftshift", "aten::fft_ifftshift", "aten::roll"})
_TRANSFORM = "aten::fft_"


@derived
def shifted_spectra(analysis: Analysis) -> I64:
    """The operators that shift what a Fourier transform right before or behind them gives or reads."""
    trace, found = analysis.trace, [np.empty(0, np.int64)]
    for operators in called_in_order(analysis):
        shifts = named(trace, operators, _SHIFTS.__contains__)
        transforms = named(trace, operators, lambda name: name.startswith(_TRANSFORM)) & ~shifts
        near = distinct_values(np.add.outer(np.flatnonzero(transforms), np.arange(-FAR, FAR + 1)))
        near = near[(near >= 0) & (near < len(operators))]
        found.append(operators[near[shifts[near]]])
    return np.concatenate(found)
