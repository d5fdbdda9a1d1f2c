"""Gradients exchanged in larger pieces."""

from __future__ import annotations

from typing import Any, Dict

from ..catalogue import change
from ..ddp import DdpStart

TIMES = 4
USUAL_MB = 25.0


@change
class DdpBucketSize(DdpStart):
    """``DistributedDataParallel(bucket_cap_mb=...)``, four times what it is, and at least as large as usual."""

    name = "ddp-bucket-size"
    title = "Use larger gradient buckets (bucket_cap_mb)"

    def changed(self, arguments: Dict[str, Any]) -> None:
        arguments["bucket_cap_mb"] = max(TIMES * float(arguments.get("bucket_cap_mb") or USUAL_MB), USUAL_MB)
