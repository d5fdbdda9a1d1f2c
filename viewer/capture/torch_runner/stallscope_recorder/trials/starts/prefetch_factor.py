"""More batches made in advance by each worker."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..catalogue import change
from ..loaders import LoaderStart, has_workers
from ..program import Program
from ..sites import Edit

TIMES = 4


@change
class PrefetchFactor(LoaderStart):
    """``DataLoader(prefetch_factor=...)``, four times what it is."""

    name = "prefetch-factor"
    title = "Prefetch more batches per worker (prefetch_factor)"

    def reason_against(self, loader: Any) -> Optional[str]:
        return None if loader.num_workers else "the DataLoader has no workers"

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        more = [TIMES * int(loader.prefetch_factor or 2) for loader in program.loaders if loader.num_workers]
        return (Edit("loader", (("prefetch_factor", str(max(more))),)),) if more else ()

    def changed(self, arguments: Dict[str, Any]) -> None:
        if has_workers(arguments):
            arguments["prefetch_factor"] = TIMES * int(arguments.get("prefetch_factor") or 2)
