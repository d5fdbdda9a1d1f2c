"""DataLoaders that are made with other arguments."""

from __future__ import annotations

import importlib
import os
from typing import Any, Dict, Optional

from .constructors import Construction
from .program import Program

MAX_WORKERS = 8


class LoaderStart(Construction):
    """A start that changes arguments of every ``torch.utils.data.DataLoader``."""

    ceiling = "same-batch"

    def built(self) -> Any:
        return importlib.import_module("torch.utils.data").DataLoader

    def can(self, program: Program) -> Optional[str]:
        if not program.loaders:
            return "it uses no DataLoader"
        reasons = [self.reason_against(loader) for loader in program.loaders]
        return next((reason for reason in reasons if reason), None) if all(reasons) else None

    def reason_against(self, loader: Any) -> Optional[str]:
        """Why it makes no sense for one loader."""
        return None


def workers_wanted() -> int:
    """This rank's share of the cores, at most ``MAX_WORKERS``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MAX_WORKERS, cores // max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))))


def has_workers(arguments: Dict[str, Any]) -> bool:
    """Whether a loader with these arguments makes its batches in other processes."""
    return int(arguments.get("num_workers") or 0) > 0
