"""Gradients that lie in the buckets in which they are exchanged."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..catalogue import change
from ..ddp import DdpStart
from ..program import Program
from ..sites import Edit


@change
class DdpBucketView(DdpStart):
    """``DistributedDataParallel(gradient_as_bucket_view=True)``."""

    name = "gradient-as-bucket-view"
    title = "Let gradients share memory with their buckets (gradient_as_bucket_view)"

    def reason_against(self, model: Any) -> Optional[str]:
        return "gradient_as_bucket_view is already set" if model.gradient_as_bucket_view else None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("ddp", (("gradient_as_bucket_view", "True"),)),)

    def changed(self, arguments: Dict[str, Any]) -> None:
        arguments["gradient_as_bucket_view"] = True
