"""Many tiny matrices that are factorised, and checked, in each call, as multivariate normal distributions do."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, Trace
from parsers.model.arrays import distinct_values, per_value
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import together, without_calls
from rules.fixes.forms.written import called_in_order, calls_of
from rules.kernels.factorisations import is_factorisation
from rules.kernels.recorded_shapes import single_tensors_in
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

MAX_SIDE = 32  # rows of a matrix: larger ones are worth a factorisation of their own
MIN_MATRICES = 64
FAR = 16  # operators from one on such matrices to the next of the same distribution
BEFORE = 4  # operators between writing a diagonal into matrices and the first on these
_DIAGONALS = aten("diag_embed diag")
_CHECKS = regex(
    r"aten::(eq|ge|gt|le|lt|ne|isclose|isnan|isfinite|all|any|_is_all_true|_is_any_true|is_nonzero|full|__and__)$"
)
_ADDS = aten("add add_ sub matmul bmm baddbmm")  # what makes of a diagonal matrix another one
_CHECKS_FACTOR = "aten::linalg_cholesky_ex"  # of which only is read whether it succeeded


@dataclass(frozen=True, slots=True, eq=False)
class TinyMatrices:
    """Operators on many tiny matrices, those that only check them, and how many matrices of which side."""

    on_matrices: I64
    checks: I64
    count: int
    side: int
    diagonal: bool


_CODE = """normal = Independent(Normal(mean, std), 1)          # not MultivariateNormal(mean, torch.diag_embed(std**2))
normal = MultivariateNormal(mean, scale_tril=factor, validate_args=False)     # of full covariances"""


_TITLES = {True: "Use independent normal distributions", False: "Factorise tiny matrices once, and unchecked"}


@fix
class IndependentNormals:
    id = "independent-normals"
    explanation = f"""
When it applies
    At least {MIN_MATRICES} matrices of at most {MAX_SIDE} rows are factorised at once, and a diagonal was written into
    matrices of this size right before, or they are compared with their transposes, or factorised only to see whether
    that works, as a check of arguments does. Shapes must be recorded.

What is changed in the replay
    Where they hold a diagonal, to which nothing is added, all operators on these matrices are gone, with the checks
    between them. Else the checks are.

What makes it more or less
    Whether the matrices are diagonal, or the same in each call: then no factors are needed, or once.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        for found in tiny_matrices(analysis):
            checks = without_calls(replay, calls_of(analysis, found.checks))
            matrices = without_calls(replay, calls_of(analysis, found.on_matrices))
            whole = together(checks, matrices)
            yield Proposal(
                title=f"{_TITLES[found.diagonal]}: {found.count:,} matrices of "
                f"{found.side} x {found.side} are factorised, and checked, in each call",
                categories=(Category.SLOW_OPERATOR, Category.SYNCHRONIZATION, Category.LAUNCH_BOUND),
                culprit="tiny matrices",
                problem="Many tiny matrices are factorised in each call",
                remedy=pytorch_remedy(
                    "Where the covariances are diagonal, use Independent(Normal(mean, std), 1): it needs no factors, "
                    "and its densities are sums over single numbers.",
                    "Where they are full ones, hand over the factors, scale_tril: a network can give these itself, and "
                    "those of constant covariances are computed once.",
                    "validate_args=False leaves out the checks, for each of which the CPU waits for the GPU.",
                    code=_CODE,
                ),
                expected=whole if found.diagonal else checks,
                low=matrices if found.diagonal else checks,
                high=whole,
                depends_on="whether the matrices are diagonal, or the same in each call",
            )


def tiny_matrices(analysis: Analysis) -> Iterable[TinyMatrices]:
    """The distributions, or what else factorises tiny matrices, of each size."""
    trace = analysis.trace
    if Attribute.INPUT_DIMS not in trace.attributes:
        return
    for called in called_in_order(analysis):
        factorises = np.flatnonzero(named(trace, called, is_factorisation))
        dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
        shapes = {_matrices(trace, each) for each in distinct_values(dims[factorises]).tolist()} - {None}
        for count, side in sorted(each for each in shapes if each is not None):
            found = _of_size(trace, called, dims, count, side)
            if found is not None:
                yield found


def _of_size(trace: Trace, called: I64, dims: I64, count: int, side: int) -> TinyMatrices | None:
    of_size = per_value(dims, lambda each: _has_matrices(trace, each, count, side), bool)
    places, adds = np.flatnonzero(of_size), named(trace, called, _ADDS.__contains__)
    diagonals = named(trace, called, _DIAGONALS.__contains__)
    diagonals &= per_value(dims, lambda each: _has_rows(trace, each, side), bool)
    factorises, checks = named(trace, called, is_factorisation), named(trace, called, _CHECKS.match)
    checks[:-1] |= named(trace, called[:-1], _CHECKS_FACTOR.__eq__) & checks[1:]
    matrices, checking, holds = np.zeros(len(called), bool), np.zeros(len(called), bool), []
    for run in np.split(places, np.flatnonzero(np.diff(places) > FAR) + 1):
        whole = slice(int(run[0]), int(run[-1]) + 1)
        written = np.flatnonzero(diagonals[max(whole.start - BEFORE, 0) : whole.start + 1])
        if not factorises[run].any() or not (len(written) or checks[run].any()):
            continue
        first = max(whole.start - BEFORE, 0) + int(np.append(written, 0)[-1])
        until_factor = of_size[first : run[factorises[run]][0]]
        holds.append(len(written) > 0 and not (adds[first:][: len(until_factor)] & until_factor).any())
        matrices[first] |= holds[-1]
        matrices[run] = True
        checking[whole] |= checks[whole]
    if not holds:
        return None
    return TinyMatrices(called[matrices & ~checking], called[checking], count, side, all(holds))


def _matrices(trace: Trace, dims: int) -> tuple[int, int] | None:
    """How many tiny square matrices an operator is given first, if they are many, and of how many rows."""
    shape = next(iter(single_tensors_in(trace.strings[dims])), ()) if dims >= 0 else ()
    if len(shape) < 3 or shape[-1] != shape[-2] or shape[-1] > MAX_SIDE:
        return None
    count = math.prod(shape[:-2])
    return (count, shape[-1]) if count >= MIN_MATRICES else None


def _has_matrices(trace: Trace, dims: int, count: int, side: int) -> bool:
    shapes = single_tensors_in(trace.strings[dims]) if dims >= 0 else []
    return any(each[-2:] == (side, side) and math.prod(each[:-2]) == count for each in shapes)


def _has_rows(trace: Trace, dims: int, side: int) -> bool:
    return dims >= 0 and any(each[-1:] == (side,) for each in single_tensors_in(trace.strings[dims])[:1])
