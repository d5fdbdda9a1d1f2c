"""Reads the events of a Proton trace, however many objects it consists of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from parsers.files.base import Source
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import I64, Effect, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late.regex import regex

if TYPE_CHECKING:
    from parsers.proton.records import ProtonEvents

_START = regex(rb'\s*\{\s*"displayTimeUnit"\s*:\s*"\w{1,4}"\s*,\s*"traceEvents"\s*:\s*\[')
_LIST = "traceEvents"
_DEEPEST, _OWNER_DEPTH = 2, 1  # brackets around an event, and around what one stream wrote


def begins_like_proton(head: bytes) -> bool:
    """Whether a file begins with Proton's keys, in its order."""
    return _START.match(head) is not None


def trace_of(
    source: Source, format: str, add: Callable[[TraceBuilder, ProtonEvents], I64], progress: Progress
) -> Trace:
    """The trace of a file, of which ``add`` shows some events and says which; the others are counted."""
    builder = TraceBuilder()
    events = _events_of(source, builder, progress.part(0.0, 0.7))
    shown = add(builder, events)
    if not len(shown):
        hint = "Call proton.finalize() at the end of the program, and write the trace again."
        raise Malformed(source.path, "This trace of Proton holds no kernel and no scope.", hint)
    others = len(events.start) - len(shown)
    builder.quality.read(others)
    builder.quality.note("unknown", Effect.QUARANTINED, "events of a kind that is not known", "", others)
    builder.came_from(source.name, format, "Triton Proton")
    return builder.build(progress.part(0.8, 1.0))


def _events_of(source: Source, builder: TraceBuilder, progress: Progress) -> ProtonEvents:
    """All events of a file; what is damaged is noted."""
    from parsers.json_lists import JsonLists
    from parsers.proton.records import ProtonRecords

    records = ProtonRecords(builder.quality)
    with open_bytes(source) as packed:
        stream = LimitedStream(packed, source, progress, "reading events")
        lists = JsonLists(stream, {_LIST}, _DEEPEST, _OWNER_DEPTH)
        for piece in lists.pieces():
            records.add(piece)
    if lists.damage:
        reason = "the file is cut off or damaged; what comes before is shown"
        builder.quality.note("cut", Effect.NOTED, reason, lists.damage)
    return records.events()
