"""Workers that live on from one epoch to the next."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..catalogue import change
from ..loaders import LoaderStart, has_workers
from ..program import Program
from ..sites import Edit


@change
class PersistentWorkers(LoaderStart):
    """``DataLoader(persistent_workers=True)``."""

    name = "persistent-workers"
    title = "Keep DataLoader workers alive between epochs (persistent_workers)"

    def reason_against(self, loader: Any) -> Optional[str]:
        if not loader.num_workers:
            return "the DataLoader has no workers"
        return "persistent_workers is already set" if loader.persistent_workers else None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("loader", (("persistent_workers", "True"),)),)

    def changed(self, arguments: Dict[str, Any]) -> None:
        if has_workers(arguments):
            arguments["persistent_workers"] = True
