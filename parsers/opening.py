"""Recognises each file by its content, reads it, and joins several into one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from parsers import cache
from parsers.base import Reopenable, Source, parser_of
from parsers.containers import contents, holding
from parsers.file_arguments import with_origin
from parsers.merge import merge
from parsers.model import (
    Effect,
    Malformed,
    Progress,
    Quality,
    QualityRecorder,
    Trace,
    TraceError,
    UnknownFormat,
)


def open_run(paths: Sequence[Path], progress: Progress | None = None) -> Trace:
    """What ``parsers.open_trace`` promises."""
    progress = progress or Progress()
    found = [contents(Path(path), progress.part(0.0, 0.1)) for path in paths]
    total = sum(len(each.sources) for each in found)
    traces: list[Trace] = []
    skipped: list[tuple[str, str]] = []
    for each in found:
        for source in each.sources:
            part = progress.part(0.1 + 0.8 * len(traces) / total, 0.1 + 0.8 * (len(traces) + 1) / total)
            try:
                traces.append(holding(_read(source, part, lasting=each.folder is None), each.folder))
            except TraceError as error:
                if not each.is_container:
                    raise
                skipped.append((source.name, error.problem))
        skipped += each.skipped
    if not traces:
        raise _nothing_usable(Path(paths[0]) if paths else Path(), skipped)
    trace = traces[0] if len(traces) == 1 else merge(traces)
    return _with_skipped(trace, skipped)


def _read(source: Source, progress: Progress, lasting: bool) -> Trace:
    """Read one source; ``lasting`` says that its path is the user's own file, which may be in the cache."""
    parser = parser_of(source)
    if parser is None:
        raise UnknownFormat(
            source.path,
            "This is not a recording that Stallscope knows.",
            "It reads PyTorch profiler and Chrome JSON, Nsight Systems SQLite exports, Nsight Compute reports and CSV, "
            "and nvidia-smi logs.",
        )
    if lasting and isinstance(parser, Reopenable):
        argument_source = partial(parser.argument_source, source)
        if (known := cache.load(source.path, parser.format, argument_source)) is not None:
            return with_origin(known, parser, source, known.inputs[0].state)
    state = cache.state_of(source.path)
    trace = with_origin(parser.read(source, progress), parser, source, state)
    kept = state if lasting else None
    return replace(trace, inputs=tuple(replace(each, state=kept) for each in trace.inputs))


def _nothing_usable(path: Path, skipped: list[tuple[str, str]]) -> TraceError:
    name, problem = skipped[0] if skipped else ("", "there is no file")
    return Malformed(
        path,
        f"Nothing here is a recording ({name}: {problem.rstrip('.')}).",
        "Open the recordings themselves.",
    )


def _with_skipped(trace: Trace, skipped: list[tuple[str, str]]) -> Trace:
    """The trace, whose quality record names the files that were not read."""
    if not skipped:
        return trace
    recorder = QualityRecorder()
    for name, problem in skipped:
        recorder.note(
            "file-not-read", Effect.NOTED, "files beside the recordings were not read", f"{name}: {problem}"
        )
    return replace(trace, quality=Quality.merged([trace.quality, recorder.quality()]))
