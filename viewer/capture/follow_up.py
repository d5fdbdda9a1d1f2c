"""The next recording to make when a trace could not tell something: the last request with what was missing added."""

from __future__ import annotations

import re
from dataclasses import replace

from viewer.capture.request import CaptureRequest, Tool
from viewer.capture.storage import Presets

_SHAPES = re.compile(r"\bshapes?\b", re.IGNORECASE)
_STACKS = re.compile(r"\bstacks?\b|which line|python sampling", re.IGNORECASE)
_MEMORY = re.compile(r"\bmemory (use|recording)\b|profile_memory|allocations? were not", re.IGNORECASE)
_COUNTERS = re.compile(r"nsight compute|\bncu\b|hardware counters", re.IGNORECASE)
_NODES = re.compile(r"node by node|graph-trace=node|opaque graph|inside (the|a) (CUDA )?graph", re.IGNORECASE)
_API = re.compile(r"nsight systems|\bnsys\b|no CUDA API calls", re.IGNORECASE)
_WHOLE = re.compile(r"no (CPU operators|GPU activity)", re.IGNORECASE)


def request_for(missing: str, base: CaptureRequest | None = None) -> CaptureRequest | None:
    """The recording that answers a sentence such as ``record with stacks``; ``None`` when none is named."""
    base = base or Presets().last_used() or CaptureRequest()
    if _COUNTERS.search(missing):
        return replace(base, tool=Tool.NCU, window=replace(base.window, active=1))
    if _NODES.search(missing):
        return replace(base, tool=Tool.NSYS, nsys=replace(base.nsys, graph_mode="node"))
    extras = {
        name: True
        for name, pattern in (("shapes", _SHAPES), ("stacks", _STACKS), ("memory", _MEMORY))
        if pattern.search(missing)
    }
    if extras:
        return replace(base, tool=Tool.TORCH, torch=replace(base.torch, **extras))
    if _API.search(missing):
        return replace(base, tool=Tool.NSYS)
    return replace(base, tool=Tool.TORCH) if _WHOLE.search(missing) else None
