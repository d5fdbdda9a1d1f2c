"""What the program may use of its machine: cores, and how many threads PyTorch starts on them."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
from typing import Dict

KEY = "stallscopeMachine"
QUOTA = "/sys/fs/cgroup/cpu.max"
"""What a container may use: microseconds of all cores in so many microseconds, or "max"."""


def machine() -> bytes:
    """A key of a trace, an object of JSON, with what is known; empty where nothing is."""
    known: Dict[str, int] = {}
    with contextlib.suppress(Exception):
        known["cores"] = cores()
    with contextlib.suppress(Exception):
        known["threads"] = int(importlib.import_module("torch").get_num_threads())
    return '"{}": {},'.format(KEY, json.dumps(known)).encode() if known else b""


def cores(quota: str = QUOTA) -> int:
    """How many cores this process may use at once: by its affinity, and by its container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError), open(quota, encoding="ascii") as file:
        share, period = map(float, file.read().split())
        allowed = min(allowed, max(math.ceil(share / period), 1))
    return allowed
