"""Batches made by other processes, or by more of them."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..catalogue import change
from ..loaders import LoaderStart, workers_wanted


@change
class NumWorkers(LoaderStart):
    """``DataLoader(num_workers=...)``: a worker for each core, or twice as many as there are."""

    name = "num-workers"
    title = "Load data in more worker processes"

    def reason_against(self, loader: Any) -> Optional[str]:
        from importlib import import_module

        if isinstance(loader.dataset, import_module("torch.utils.data").IterableDataset):
            return "each worker of an IterableDataset would give all of it"
        return None

    def changed(self, arguments: Dict[str, Any]) -> None:
        dataset = arguments.get("dataset")
        if hasattr(type(dataset), "__getitem__"):
            now = int(arguments.get("num_workers") or 0)
            arguments["num_workers"] = workers_wanted() if now < workers_wanted() else 2 * now
