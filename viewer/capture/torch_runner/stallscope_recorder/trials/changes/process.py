"""What holds for the whole process: its garbage, its threads, its allocator, the settings of NCCL."""

from __future__ import annotations

import gc
import os
from types import MappingProxyType
from typing import Iterable, Optional

from ..catalogue import START, Change, change
from ..program import Program, cores_of_rank, torch_module
from .constructed import workers_wanted


@change
class GcFreeze(Change):
    """``gc.freeze()`` and ``gc.disable()``, and the script's own ``gc.collect()`` does nothing.

    What was left over is collected when it is taken back.
    """

    name = "gc-freeze"
    title = "Turn off garbage collection during steps"

    def can(self, program: Program) -> Optional[str]:
        return None if gc.isenabled() else "the program has switched garbage collection off already"

    def on(self, program: Program) -> None:
        self.undo_by(gc.collect)
        self.undo_by(gc.unfreeze)
        self.undo_by(gc.enable)
        gc.collect()
        gc.freeze()
        gc.disable()
        self.put(gc, "collect", lambda generation=2: 0)


@change
class Threads(Change):
    """``torch.set_num_threads``: this rank's share of the cores, or half of it where that is in use already."""

    name = "threads"
    title = "Change the number of CPU threads"

    def can(self, program: Program) -> Optional[str]:
        if _wanted() == torch_module().get_num_threads():
            return "each process has only one core"
        return None

    def on(self, program: Program) -> None:
        torch, wanted = torch_module(), _wanted()
        before = torch.get_num_threads()
        self.undo_by(lambda: torch.set_num_threads(before))
        torch.set_num_threads(wanted)
        self._made = wanted

    def is_made(self, program: Program) -> bool:
        return bool(torch_module().get_num_threads() == self._made)


def _wanted() -> int:
    now = int(torch_module().get_num_threads())
    share = cores_of_rank()
    return share if now != share else max(1, share // 2)


def _set_already(names: Iterable[str]) -> Optional[str]:
    found = next((name for name in names if os.environ.get(name)), None)
    return "{} is already set".format(found) if found else None


@change
class CudaAllocConf(Change):
    """``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``."""

    name = "expandable-segments"
    title = "Use expandable memory segments (expandable_segments)"
    level = START
    usual = False
    needs_gpu = True
    environment = MappingProxyType({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})

    def can(self, program: Program) -> Optional[str]:
        return _set_already((*self.environment, "PYTORCH_ALLOC_CONF"))


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


class NcclStart(Change):
    """A start that sets environment variables of NCCL or of torch's process group for it."""

    level = START
    usual = False
    needs_gpu = True
    ceiling = "no-collectives"

    def can(self, program: Program) -> Optional[str]:
        if program.ranks < 2:
            return "there is only one rank"
        if "nccl" not in str(torch_module().distributed.get_backend()):
            return "the ranks don't communicate through NCCL"
        return _set_already(self.environment)


def _nccl(name: str, what: str, variable: str, value: str) -> None:
    title, environment = "{} ({})".format(what, variable), MappingProxyType({variable: value})
    change(type(name, (NcclStart,), {"name": name, "title": title, "environment": environment}))


_nccl("nccl-tree", "Use NCCL's tree algorithm", "NCCL_ALGO", "Tree")
# 16 MiB, four times the usual
_nccl("nccl-buffer", "Use larger NCCL buffers", "NCCL_BUFFSIZE", "16777216")
_nccl("nccl-channels", "Use more NCCL channels", "NCCL_MIN_NCHANNELS", "16")
_nccl("nccl-avoid-record-streams", "Free collective buffers early", "TORCH_NCCL_AVOID_RECORD_STREAMS", "1")
_nccl("nccl-high-priority", "Run collectives on a high-priority stream", "TORCH_NCCL_HIGH_PRIORITY", "1")
_nccl("nccl-low-latency", "Use NCCL's low-latency protocol", "NCCL_PROTO", "LL128")
