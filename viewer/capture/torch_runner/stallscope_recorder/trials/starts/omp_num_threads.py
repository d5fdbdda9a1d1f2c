"""Another number of threads for everything in the process that uses OpenMP."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import Optional

from ..catalogue import START, Change, change
from ..loaders import workers_wanted
from ..program import Program, torch_module


@change
class OmpNumThreads(Change):
    """``OMP_NUM_THREADS``: this rank's share of the cores."""

    name = "omp-num-threads"
    title = "Give each rank its share of the cores (OMP_NUM_THREADS)"
    level = START
    usual = False
    environment = MappingProxyType({"OMP_NUM_THREADS": str(workers_wanted())})

    def can(self, program: Program) -> Optional[str]:
        now = os.environ.get("OMP_NUM_THREADS") or torch_module().get_num_threads()
        if str(now) == self.environment["OMP_NUM_THREADS"]:
            return "OpenMP has this rank's share of the cores already"
        return None
