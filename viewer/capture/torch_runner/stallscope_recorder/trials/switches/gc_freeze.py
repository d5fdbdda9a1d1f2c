"""No collection of Python's garbage inside the steps."""

from __future__ import annotations

import gc
from typing import Optional

from ..catalogue import Change, change
from ..program import Program


@change
class GcFreeze(Change):
    """``gc.freeze()`` and ``gc.disable()``, and the script's own ``gc.collect()`` does nothing.

    What was left over is collected when it is taken back.
    """

    name = "gc-freeze"
    title = "Turn off garbage collection during steps"

    def can(self, program: Program) -> Optional[str]:
        return None if gc.isenabled() else "the program has switched garbage collection off already"

    def on(self, program: Program) -> None:
        self.undo_by(gc.collect)
        self.undo_by(gc.unfreeze)
        self.undo_by(gc.enable)
        gc.collect()
        gc.freeze()
        gc.disable()
        self.put(gc, "collect", lambda generation=2: 0)
