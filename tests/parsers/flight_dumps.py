"""Dumps of a flight recorder as torch lays them out, small enough to be written by hand."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - to write what is read as data
from typing import Any

START = 1_795_000_000_000_000_000  # ns since 1970
FRAMES = [
    {"name": "all_reduce", "filename": "/env/lib/python3.11/site-packages/torch/distributed.py", "line": 3},
    {"name": "step", "filename": "/home/me/train.py", "line": 21},
]


def entry(sequence: int, at_ms: float = 0.0, name: str = "nccl:all_reduce", **stated: Any) -> dict[str, Any]:
    """One collective that ended 1 ms after it was called, unless something else is stated."""
    created = START + round(at_ms * 1e6)
    return {
        "record_id": sequence,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "profiling_name": name,
        "time_created_ns": created,
        "time_discovered_completed_ns": created + 1_000_000,
        "input_sizes": [[4, 250]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, 250]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "frames": FRAMES,
    } | stated


def open_entry(sequence: int, at_ms: float = 0.0, **stated: Any) -> dict[str, Any]:
    """One that did not end."""
    started = {"state": "started", "retired": False, "time_discovered_completed_ns": None}
    return entry(sequence, at_ms, **(started | stated))


def dump(*entries: Any, ranks: str = "[0, 1, 2]") -> dict[str, Any]:
    """A dump whose default group has these ranks."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": list(entries)}


def pickled(*entries: Any, **more: Any) -> bytes:
    """The dump as torch's own pickler writes it: protocol 2."""
    return pickle.dumps(dump(*entries, **more), 2)


def as_json(*entries: Any, **more: Any) -> bytes:
    """The dump as JSON, which begins with its version of NCCL."""
    return json.dumps({"nccl_version": "2.27.3"} | dump(*entries, **more)).encode()
