"""Kernels and operators that factorise matrices, or solve triangular systems, by their names."""

from __future__ import annotations

from parsers.model import BOOL, I64, Trace
from parsers.model.late import regex
from parsers.model.names.per_name import named

# as LAPACK calls them, which cuSOLVER, cuBLAS and MAGMA follow: LU, Cholesky, QR, eigenvalues and singular values
_FACTORISES = regex(
    r"(?<![a-z])[sdcz]?(?:getr[fs]|getf2|potr[fs]|potf2|sytr[fsd]|geqr[f2]|or[gm]qr|larf[bgt]|laswp|trs[mv]|trtri|"
    r"syrk|herk|syev|steqr|stedc|gebrd|bdsqr|gesvd|geev|gehrd)|cholesky|lu_(?:factor|solve)"
)
_OPERATORS = regex(
    r"aten::_?(?:linalg_(?:cholesky|lu|ldl|qr|svd|eig|inv|solve|lstsq|det|slogdet|pinv|householder)|cholesky|lu_|"
    r"triangular_solve|geqrf|ormqr|orgqr)"
)
# of the time in double precision: a program that does so much of this usually means it
MEANT = 0.2


def factorises(trace: Trace, kernels: I64) -> BOOL:
    """Which kernels factorise a matrix, update it while that is done, or solve a triangular system."""
    return named(trace, kernels, _FACTORISES.search)


def is_factorisation(operator: str) -> bool:
    """Whether an operator of PyTorch does, by its name."""
    return _OPERATORS.match(operator) is not None
