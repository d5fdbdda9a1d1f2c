"""A recording that is one database: opened, read into a trace, and asked again for the row of an event."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from parsers.files.base import Source
from parsers.model import Progress, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.sqlite.database import Database
from parsers.sqlite.private_copy import unpacked
from parsers.sqlite.row_source import RowSource, Show


def read_database(
    source: Source,
    progress: Progress,
    written_by: TraceInput,
    fill: Callable[[Database, TraceBuilder], None],
    show: Show | None = None,
) -> Trace:
    """What ``fill`` reads of a database; ``show`` tells a row of it, without which events have no arguments."""
    path = unpacked(source, progress.part(0.0, 0.1))
    builder = TraceBuilder()
    with contextlib.closing(Database.open(path, builder.quality, progress=progress)) as database:
        fill(database, builder)
    builder.inputs.append(written_by)
    builder.sources.append(None if show is None else RowSource.of(path, show))
    return builder.build(progress.part(0.8, 1.0))


def rows_of(source: Source, show: Show) -> RowSource:
    """Where the arguments of events of a recording lie that was read before."""
    return RowSource.of(unpacked(source, Progress()), show)
