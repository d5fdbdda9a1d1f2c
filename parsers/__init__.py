"""Reads recordings: ``open_trace`` recognises each file by its content and joins several into one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parsers.base import Source, parsers
from parsers.merge import merge
from parsers.model import Progress, Trace, UnknownFormat
from parsers.source import identify

__all__ = ["open_trace"]


def open_trace(paths: Sequence[Path], progress: Progress | None = None) -> Trace:
    """Read one recording, or several files of one run, as one trace; raises ``TraceError`` with a hint."""
    progress = progress or Progress()
    sources = [identify(Path(path)) for path in paths]
    traces = []
    for index, source in enumerate(sources):
        part = progress.part(index / len(sources), (index + 1) / len(sources))
        traces.append(_read(source, part))
    return traces[0] if len(traces) == 1 else merge(traces)


def _read(source: Source, progress: Progress) -> Trace:
    for parser in parsers():
        if parser.recognises(source):
            return parser.read(source, progress)
    raise UnknownFormat(
        source.path,
        "This is not a recording that Stallscope knows.",
        "It reads PyTorch profiler or Chrome JSON, Nsight Systems SQLite exports, and Nsight Compute reports or CSV.",
    )
