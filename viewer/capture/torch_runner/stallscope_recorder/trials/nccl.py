"""Settings of NCCL that are fixed when the process group is made."""

from __future__ import annotations

import os
from typing import Optional

from .catalogue import START, Change
from .program import NO_GPU, Program, torch_module


class NcclStart(Change):
    """A start that sets environment variables of NCCL or of torch's process group for it."""

    level = START
    usual = False
    ceiling = "no-collectives"

    def can(self, program: Program) -> Optional[str]:
        if program.device != "cuda":
            return NO_GPU
        if program.ranks < 2:
            return "there is only one rank"
        if "nccl" not in str(torch_module().distributed.get_backend()):
            return "the ranks don't communicate through NCCL"
        set_by_user = next((name for name in self.environment if os.environ.get(name)), None)
        return "{} is already set".format(set_by_user) if set_by_user else None
