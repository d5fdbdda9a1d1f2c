"""Batches made by other processes, or by more of them."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..catalogue import change
from ..loaders import LoaderStart, workers_wanted
from ..program import Program
from ..sites import Edit


@change
class NumWorkers(LoaderStart):
    """``DataLoader(num_workers=...)``: a worker for each core, or twice as many as there are."""

    name = "num-workers"
    title = "Use more DataLoader workers"

    def reason_against(self, loader: Any) -> Optional[str]:
        from importlib import import_module

        if isinstance(loader.dataset, import_module("torch.utils.data").IterableDataset):
            return "every worker of an IterableDataset would yield all of its samples"
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        more = [_more(loader.num_workers) for loader in program.loaders]
        return (Edit("loader", (("num_workers", str(max(more))),)),) if more else ()

    def changed(self, arguments: Dict[str, Any]) -> None:
        dataset = arguments.get("dataset")
        if hasattr(type(dataset), "__getitem__"):
            arguments["num_workers"] = _more(int(arguments.get("num_workers") or 0))


def _more(now: int) -> int:
    return workers_wanted() if now < workers_wanted() else 2 * now
