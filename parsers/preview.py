"""The beginning of a large recording, to look at while the rest is being read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from parsers.files.base import Previewing, Source, parser_of
from parsers.files.signatures import USUAL_GROWTH
from parsers.files.source import identify
from parsers.model import Effect, EventTable, Links, Progress, Quality, QualityRecorder, Trace, TraceError
from parsers.model.attributes import AttributeColumn
from parsers.model.events import COLUMNS
from parsers.model.quality import PREVIEW
from parsers.storage import cache
from parsers.storage.file_arguments import with_origin

PREVIEW_EVENTS = 150_000
# of the unpacked file for each event of the preview: a twentieth of what reading all takes
_BYTES_FOR_EACH = 4_000
_MIN_EVENTS = 10_000
_NUMEROUS = 4  # a kind with at least a fourth of the events of the largest was probably cut off


def open_preview(paths: Sequence[Path], most_events: int = PREVIEW_EVENTS) -> Trace | None:
    """A trace of the first events of the first recording that can show them; None where none can, or need not.

    It is for looking at only: not for the cache, and nothing should be concluded from it. What is wrong with a file is
    for ``open_trace`` to say.
    """
    for path in paths:
        for source in _sources(Path(path)):
            parser = parser_of(source)
            if parser is None or cache.holds(source.path, parser):
                continue
            if isinstance(parser, Previewing):
                try:
                    trace = parser.preview(source, min(most_events, _worth_showing(source)), Progress())
                except (TraceError, OSError):
                    return None
                if trace is None:
                    return None
                return _marked(with_origin(trace, parser, source, cache.state_of(source.path)), source)
    return None


def _worth_showing(source: Source) -> int:
    size = source.path.stat().st_size * (USUAL_GROWTH if source.compression else 1)
    return max(size // _BYTES_FOR_EACH, _MIN_EVENTS)


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


def with_common_end(trace: Trace) -> Trace:
    """The trace up to where its most numerous kinds of events have all been read: others would go on alone.

    For files that keep each kind of events in a table of its own, of which the first rows cover different times.
    """
    events = trace.events
    counts = np.bincount(events.kind, minlength=1)
    numerous = np.flatnonzero(counts * _NUMEROUS >= max(int(counts.max()), 1))
    ends = [int(events.end[events.kind == kind].max()) for kind in numerous.tolist()]
    return _until(trace, min(ends)) if ends else trace


def _until(trace: Trace, end: int) -> Trace:
    """The events and samples that begin before ``end``, ns."""
    events, links = trace.events, trace.links
    kept = events.start < end
    place = np.cumsum(kept) - 1
    linked = kept[links.operation] & kept[links.launch]
    attributes = {}
    for which, column in trace.attributes.items():
        mine = kept[column.event]
        if mine.any():
            attributes[which] = AttributeColumn(place[column.event[mine]], column.value[mine])
    counters = tuple(
        replace(each, time=each.time[each.time < end], value=each.value[each.time < end])
        for each in trace.counters
    )
    return replace(
        trace,
        events=EventTable(**{name: getattr(events, name)[kept] for name in COLUMNS}),
        links=Links(place[links.operation[linked]], place[links.launch[linked]]),
        attributes=attributes,
        counters=tuple(each for each in counters if len(each.time)),
    )
