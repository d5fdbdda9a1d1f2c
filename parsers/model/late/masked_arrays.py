"""Numpy's masked arrays, which nothing here uses: loaded when somebody wants one.

``np.unique``, what is built on it, and ``np.median`` ask whether they were given a masked array, for which numpy loads
the whole package: some 10 of the 400 ms of a small diagnosis. Until that is loaded there is no such array.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

_PACKAGE = "numpy.ma"
_ASKED = frozenset({"is_masked", "isMaskedArray"})


class MaskedArrays:
    """Has what ``numpy.ma`` has, which takes its place as soon as anything else of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED and _PACKAGE not in sys.modules:
            return _is_none
        return getattr(importlib.import_module(_PACKAGE), name)


def _is_none(_: object) -> bool:
    return False


def load_when_wanted() -> None:
    """Let numpy ask without loading them."""
    vars(np).setdefault("ma", MaskedArrays())
