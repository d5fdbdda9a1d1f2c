"""Which files of a recording are not any more what was read; no Qt."""

from __future__ import annotations

from pathlib import Path

from parsers.model import Trace
from parsers.stored import cache


def changed_files(trace: Trace) -> list[str]:
    """Names of the input files that were replaced, written to or removed since the trace was read."""
    return [
        Path(each.file).name
        for each in trace.inputs
        if each.state is not None and cache.state_of(Path(each.file)) != each.state
    ]
