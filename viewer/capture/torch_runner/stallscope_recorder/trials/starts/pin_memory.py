"""Batches handed over in page-locked memory."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..catalogue import change
from ..loaders import LoaderStart
from ..program import NO_GPU, Program
from ..sites import Edit


@change
class PinMemory(LoaderStart):
    """``DataLoader(pin_memory=True)``."""

    name = "pin-memory"
    title = "Load batches into pinned memory (pin_memory)"

    def can(self, program: Program) -> Optional[str]:
        return NO_GPU if program.device != "cuda" else super().can(program)

    def reason_against(self, loader: Any) -> Optional[str]:
        return "pin_memory is already set" if loader.pin_memory else None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("loader", (("pin_memory", "True"),)),)

    def changed(self, arguments: Dict[str, Any]) -> None:
        arguments["pin_memory"] = True
