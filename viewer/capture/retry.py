"""The request that should work after one that found no steps, or too few of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from viewer.capture.request import CaptureRequest, Tool

REASONS = frozenset({"no-torch", "no-steps", "too-few-steps", "too-late"})
"""Why the runner says that it recorded nothing."""


def retry_after(request: CaptureRequest, problem: Mapping[str, Any]) -> CaptureRequest | None:
    """The same recording with another window; ``None`` where another window would not help."""
    reason, steps = problem.get("reason"), problem.get("steps")
    window = request.window
    if reason == "too-late":
        return replace(request, window=replace(window, delay_s=0.0))
    if reason == "too-few-steps" and isinstance(steps, int) and steps >= 3:
        fewer = replace(
            window, skip_first=1, wait=0, warmup=1, active=min(window.active, max(1, steps - 3)), repeat=1
        )
        return replace(request, window=fewer)
    if reason not in ("no-steps", "too-few-steps"):
        return None
    if request.tool is Tool.TORCH:
        return replace(request, window=replace(window, steps="whole"))
    if request.tool is Tool.NSYS:
        return replace(request, nsys=replace(request.nsys, range="time"))
    return replace(request, ncu=replace(request.ncu, range="whole"))
