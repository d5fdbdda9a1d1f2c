"""Refuses a recording that cannot fit in memory, before hours of reading end in a crash."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from parsers.model import TraceError

_SHARE = 0.9
_MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Memory that programs can still get, bytes; None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def require_memory(path: Path, events: int, bytes_an_event: int, hint: str) -> None:
    """Raise ``TraceError`` when ``events`` need more memory than there is; says both numbers."""
    there_is = available_bytes()
    needed = events * bytes_an_event
    if there_is is not None and needed > there_is * _SHARE:
        raise TraceError(
            path,
            f"It holds about {events:,} events, which need {needed / 1e9:,.1f} GB of memory; "
            f"{there_is / 1e9:,.1f} GB are free.",
            hint,
        )
