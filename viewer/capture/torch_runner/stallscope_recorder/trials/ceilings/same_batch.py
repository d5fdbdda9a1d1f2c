"""The batch of the step before, as a loader that is never late would give one."""

from __future__ import annotations

from typing import Optional

from ..catalogue import CEILING, Change, change
from ..program import Program


@change
class SameBatch(Change):
    """Every DataLoader gives its last batch again."""

    name = "same-batch"
    title = "Data always there"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        return None if program.fetches else "no DataLoader gives the batches"

    def on(self, program: Program) -> None:
        self.put(program, "repeats_batch", True)
