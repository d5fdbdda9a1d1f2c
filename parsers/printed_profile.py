"""A profile that is read at once and becomes tables: its limit, its account, and what is said where it is damaged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from parsers.files.base import Accompanying, Source
from parsers.files.source import open_bytes
from parsers.files.texts import decoded
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Malformed, Progress, ResultTable, Trace
from parsers.model.builder import MAX_TABLES, TraceBuilder
from parsers.model.results import rows_shown


def read_profile(
    source: Source,
    progress: Progress,
    wrote: tuple[str, str],
    tables: Callable[[bytes], Iterable[ResultTable]],
) -> Trace:
    """The trace of one file whose content ``tables`` makes tables of; ``wrote`` is the format and who wrote it.

    Tables without rows are left out. Raises ``TraceError`` where none is left, or where the file is too large.
    """
    builder = TraceBuilder()
    with open_bytes(source) as stream:
        limited = LimitedStream(stream, source, progress.part(0.0, 0.5), "reading the profile")
        content = limited.whole("Sort it by time, and keep the first rows.")
    for table in tables(content):
        if table.rows and len(builder.tables) < MAX_TABLES:
            shown = rows_shown(builder.quality, len(table.rows))
            builder.tables.append(replace(table, rows=table.rows[:shown]))
    if not builder.tables:
        raise Malformed(source.path, "The profile has a header but no rows.", "Write it again.")
    builder.quality.cut(limited.damage)
    form, producer = wrote
    builder.came_from(source.name, form, producer)
    return builder.build(progress.part(0.5, 1.0))


class PrintedProfile(Accompanying):
    """A parser of a text that is read at once and becomes tables, by ``producer``."""

    producer: ClassVar[str]

    @abstractmethod
    def tables(self, text: str) -> Iterable[ResultTable]:
        """The tables of a text, in their order; those without rows are left out."""

    def read(self, source: Source, progress: Progress) -> Trace:
        def tables(content: bytes) -> Iterable[ResultTable]:
            return self.tables(decoded(content))

        return read_profile(source, progress, (self.format, self.producer), tables)
