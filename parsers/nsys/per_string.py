"""A small number for each string of the trace, worked out once a string and looked up for many events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int8]


class PerString:
    """``judge`` is asked once for each string, however many events bear it; ``strings`` may grow."""

    def __init__(self, strings: Sequence[str], judge: Callable[[str], int]) -> None:
        self._strings = strings
        self._judge = judge
        self._values = np.empty(0, np.int8)

    def of(self, names: npt.NDArray[np.int32]) -> I8:
        """The number of each name's string."""
        known = len(self._values)
        if len(self._strings) > known:
            new = np.fromiter((self._judge(text) for text in self._strings[known:]), np.int8)
            self._values = np.concatenate((self._values, new))
        return self._values[names]
