"""Arguments from a recording's own file, described so plainly that another process can ask for them too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from parsers.files.base import Parser, Source, is_reopenable, reopenable_parser
from parsers.model import ArgumentSource, Trace, TraceError
from parsers.model.late import dataclass
from parsers.storage.cache import state_of


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """Which parser read which file, as plain data; ``state`` is the file's size and modification time (ns) then."""

    format: str
    path: str
    compression: str
    shown: str
    state: tuple[int, int] | None


@dataclass(slots=True)
class FileArguments:
    """Asks the parser of the file; empty once the file was replaced, or is gone."""

    origin: FileOrigin
    asked: ArgumentSource | None = field(default=None, repr=False)

    def arguments(self, source_row: int) -> Mapping[str, Any]:
        if state_of(Path(self.origin.path)) != self.origin.state:
            return {}
        if self.asked is None:
            try:
                self.asked = _asked(self.origin)
            except (TraceError, OSError):
                return {}
        return self.asked.arguments(source_row) if self.asked is not None else {}


def with_origin(trace: Trace, parser: Parser, source: Source, state: tuple[int, int] | None) -> Trace:
    """The trace that ``parser`` read from ``source``, whose arguments can be asked for from another process too."""
    if not is_reopenable(parser):
        return trace
    origin = FileOrigin(parser.format, str(source.path), source.compression, source.shown, state)
    return replace(trace, sources=tuple(each and FileArguments(origin, each) for each in trace.sources))


def _asked(origin: FileOrigin) -> ArgumentSource | None:
    source = Source(Path(origin.path), b"", origin.compression, origin.shown)
    parser = reopenable_parser(origin.format)
    return None if parser is None else parser.argument_source(source)
