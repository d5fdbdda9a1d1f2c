"""The beginning of a large recording, to look at while the rest is being read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from parsers import cache
from parsers.base import Previewing, Source, parsers
from parsers.file_arguments import with_origin
from parsers.model import Effect, Progress, Quality, QualityRecorder, Trace, TraceError
from parsers.model.quality import PREVIEW
from parsers.source import identify

PREVIEW_EVENTS = 150_000


def open_preview(
    paths: Sequence[Path], progress: Progress | None = None, most_events: int = PREVIEW_EVENTS
) -> Trace | None:
    """A trace of the first events of the first recording that can show them; None where none can, or need not.

    It is for looking at only: not for the cache, and nothing should be concluded from it. What is wrong with a file is
    for ``open_trace`` to say.
    """
    progress = progress or Progress()
    for path in paths:
        for source in _sources(Path(path)):
            parser = next((each for each in parsers() if each.recognises(source)), None)
            if parser is None or cache.holds(source.path, parser.format):
                continue
            if isinstance(parser, Previewing):
                try:
                    trace = parser.preview(source, most_events, progress)
                except (TraceError, OSError):
                    return None
                if trace is None:
                    return None
                return _marked(with_origin(trace, parser, source, cache.state_of(source.path)), source)
    return None


def _sources(path: Path) -> Iterator[Source]:
    files = (each for each in sorted(path.rglob("*")) if each.is_file()) if path.is_dir() else iter((path,))
    for file in files:
        try:
            yield identify(file)
        except TraceError:
            continue


def _marked(trace: Trace, source: Source) -> Trace:
    notes = QualityRecorder()
    notes.note(
        PREVIEW,
        Effect.NOTED,
        f"Only the first {len(trace.events):,} events are shown while the rest is being read.",
        source.name,
    )
    return replace(trace, quality=Quality.merged([trace.quality, notes.quality()]))
