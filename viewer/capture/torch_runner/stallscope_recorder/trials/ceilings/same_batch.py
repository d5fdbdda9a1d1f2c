"""The batch of the step before, as a loader that is never late would give one."""

from __future__ import annotations

from typing import Optional

from ..catalogue import CEILING, Change, change
from ..program import Program, batches_in_store

MAX_SETTLE = 128
"""Steps; more would take longer than they are worth."""


@change
class SameBatch(Change):
    """Every DataLoader gives its last batch again."""

    name = "same-batch"
    title = "Data loading takes no time"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        return None if program.fetches else "it uses no DataLoader"

    def on(self, program: Program) -> None:
        self.put(program, "repeats_batch", True)

    def settle_after(self, program: Program) -> int:
        """The workers went on meanwhile: what they have in store is no sign of how fast they are."""
        stored = max(map(batches_in_store, program.loaders), default=0)
        return max(super().settle_after(program), min(stored + 1, MAX_SETTLE))
