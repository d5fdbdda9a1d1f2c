"""Calls that log, save, exchange or read back data, where the script has loaded the libraries they belong to."""

from __future__ import annotations

import sys
from typing import Any, Iterator, Tuple

LOGGING = (
    ("torch", "save"),
    ("torch.distributed.checkpoint", "save"),
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_scalar"),
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_scalars"),
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_histogram"),
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_image"),
    ("torch.utils.tensorboard.writer", "SummaryWriter.flush"),
    ("wandb", "log"),
    ("wandb.sdk.wandb_run", "Run.log"),
    ("mlflow", "log_metric"),
    ("mlflow", "log_metrics"),
)
READERS = ("item", "tolist", "__float__", "__int__", "__bool__", "cpu")
"""Methods of a tensor that wait for its value."""
COLLECTIVES = tuple(
    ("torch.distributed", name)
    for name in (
        "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
        "all_to_all", "all_to_all_single", "broadcast", "reduce", "barrier",
    )
)  # fmt: skip


def found(calls: Tuple[Tuple[str, str], ...]) -> Iterator[Tuple[Any, str]]:
    """Owner and attribute of each call that is there."""
    for module, path in calls:
        owner: Any = sys.modules.get(module)
        *parts, name = path.split(".")
        for part in parts:
            owner = getattr(owner, part, None)
        if owner is not None and hasattr(owner, name):
            yield owner, name


def is_read_by_script(frame: Any) -> bool:
    """Whether a call comes from outside of torch, which reads its own counters."""
    return not str(frame.f_globals.get("__name__", "")).startswith("torch.")
