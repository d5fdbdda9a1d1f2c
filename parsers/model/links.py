"""Which API call launched which GPU operation, as integer columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parsers.model.arrays import I64

_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Pairs of event indices, sorted by ``operation``: each GPU operation has at most one launch.

    One launch may have many operations (a CUDA graph).
    """

    operation: I64
    launch: I64

    @staticmethod
    def empty() -> Links:
        return Links(_EMPTY, _EMPTY)

    @staticmethod
    def of(operation: I64, launch: I64) -> Links:
        order = np.argsort(operation, kind="stable")
        return Links(operation[order], launch[order])

    def launch_of(self, operations: I64) -> I64:
        """The launch event of each operation; -1 where none was recorded."""
        if not len(self.operation):
            return np.full(len(operations), -1, np.int64)
        place = np.minimum(np.searchsorted(self.operation, operations), len(self.operation) - 1)
        return np.where(self.operation[place] == operations, self.launch[place], -1)

    def operations_of(self, launch: int) -> I64:
        """The GPU operations that one launch started, in event order."""
        started: I64 = self.operation[self.launch == launch]
        return started
