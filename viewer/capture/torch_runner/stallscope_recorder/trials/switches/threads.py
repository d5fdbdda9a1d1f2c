"""Another number of threads for what the CPU computes."""

from __future__ import annotations

import os
from typing import Optional

from ..catalogue import Change, change
from ..program import Program, torch_module


@change
class Threads(Change):
    """``torch.set_num_threads``: this rank's share of the cores, or half of it where that is in use already."""

    name = "threads"
    title = "Change the number of CPU threads"

    def can(self, program: Program) -> Optional[str]:
        if _wanted() == torch_module().get_num_threads():
            return "each process has only one core"
        return None

    def on(self, program: Program) -> None:
        torch, wanted = torch_module(), _wanted()
        before = torch.get_num_threads()
        self.undo_by(lambda: torch.set_num_threads(before))
        torch.set_num_threads(wanted)
        self._made = wanted

    def is_made(self, program: Program) -> bool:
        return bool(torch_module().get_num_threads() == self._made)


def _wanted() -> int:
    now = int(torch_module().get_num_threads())
    share = max(1, _cores() // max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1)))
    return share if now != share else max(1, share // 2)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
