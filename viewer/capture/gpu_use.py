"""Memory and utilisation of this machine's GPUs while something is recorded, from ``nvidia-smi`` where it is."""

from __future__ import annotations

import subprocess

from parsers import program_search
from parsers.model.late.dataclass import dataclass

QUERY_SECONDS = 5.0
_FIELDS = "index,utilization.gpu,memory.used,memory.total"


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU at one moment; memory in MiB, utilisation in percent, -1 where the driver does not say."""

    index: int
    utilisation: int
    memory_used: int
    memory_total: int

    @property
    def sentence(self) -> str:
        """``GPU 0: 87 % busy, 12.3 of 140 GiB``."""
        busy = f"{self.utilisation} % busy" if self.utilisation >= 0 else "use unknown"
        if self.memory_used < 0 or self.memory_total <= 0:
            return f"GPU {self.index}: {busy}"
        return (
            f"GPU {self.index}: {busy}, {self.memory_used / 1024:.3g} of {self.memory_total / 1024:.3g} GiB"
        )


def gpu_use() -> list[GpuUse]:
    """All GPUs now; empty without ``nvidia-smi`` or when it fails."""
    program = program_search.program("nvidia-smi")
    if program is None:
        return []
    try:
        said = subprocess.run(
            [program, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=QUERY_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [use for line in said.stdout.splitlines() if (use := _read(line)) is not None]


def _read(line: str) -> GpuUse | None:
    words = [word.strip() for word in line.split(",")]
    if len(words) != 4 or not words[0].isdigit():
        return None
    numbers = [int(word) if word.lstrip("-").isdigit() else -1 for word in words]
    return GpuUse(*numbers)
