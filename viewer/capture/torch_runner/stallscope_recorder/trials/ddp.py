"""DistributedDataParallel made with other arguments."""

from __future__ import annotations

import importlib
from typing import Any, Optional

from .constructors import Construction
from .program import Program


class DdpStart(Construction):
    """A start that changes arguments of every ``torch.nn.parallel.DistributedDataParallel``."""

    ceiling = "no-collectives"

    def built(self) -> Any:
        return importlib.import_module("torch.nn.parallel").DistributedDataParallel

    def can(self, program: Program) -> Optional[str]:
        models = program.parallel_models()
        if not models:
            return "no model is in DistributedDataParallel"
        reasons = [self.reason_against(model) for model in models]
        return next((reason for reason in reasons if reason), None) if all(reasons) else None

    def reason_against(self, model: Any) -> Optional[str]:
        """Why it makes no sense for one model."""
        return None
