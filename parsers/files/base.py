"""What a parser is, and how parsers are found: one class below ``parsers/formats`` is all it takes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol, TypeGuard, TypeVar, runtime_checkable

from parsers.files.texts import utf8
from parsers.model import ArgumentSource, Progress, Trace
from parsers.model.catalogs import load_all
from parsers.model.late import dataclass, regex

HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """One recording to read: the file, and what is inside it once unpacked.

    ``path`` is the user's file (never written to). ``head`` holds the first ``HEAD_BYTES`` of the unpacked content, and
    ``tail`` the last ones of a plain text that is longer. ``compression`` is "" (plain), "gzip" or "zstd". A member of
    an archive was unpacked to a private temporary file: then ``path`` is that file and ``shown`` is what to call it.
    """

    path: Path
    head: bytes
    compression: str = ""
    shown: str = ""
    tail: bytes = b""

    @property
    def name(self) -> str:
        return self.shown or self.path.name

    @property
    def printed(self) -> tuple[bytes, ...]:
        """Where a table stands that a program printed: at the beginning, or behind all else that it printed; UTF-8."""
        return (utf8(self.head), self.tail) if self.tail else (utf8(self.head),)


class Parser(Protocol):
    """Reads one format.

    ``title`` is the recorder as users call it, ``files`` what of its files is read in a few words, ``suffixes`` how
    their names usually end when they are not packed; all are empty for what is only refused. ``priority``: lower is
    asked first. ``version``: raised whenever the same file gives another trace than before, so that what is kept of
    earlier readings is read again.
    """

    format: ClassVar[str]
    title: ClassVar[str]
    files: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    priority: ClassVar[int]
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        """Whether the head bytes are of this format; must be quick and never raise."""

    def read(self, source: Source, progress: Progress) -> Trace:
        """Read it all; raises ``TraceError`` with a hint when it cannot be used."""


@runtime_checkable
class Reopenable(Parser, Protocol):
    """A parser whose traces may be kept in a cache: it can fetch arguments without reading the file again."""

    def argument_source(self, source: Source) -> ArgumentSource:
        """Where ``source_row`` of a trace of this source leads."""


@runtime_checkable
class OwnSuffixes(Protocol):
    """A parser of files whose names end like no other program's: a desktop opens them with this one."""

    media_types: ClassVar[Mapping[str, str]]  # by the ending


class Accompanying(Parser):
    """A parser of what is shown beside a timeline: counters of kernels and devices, snapshots, printed tables."""


@runtime_checkable
class Presuming(Protocol):
    """A parser that is tried on every file of a general form, such as JSON, whatever the file is about."""

    def is_certain(self, source: Source) -> bool:
        """Whether the head shows that it is a recording."""


@runtime_checkable
class Previewing(Protocol):
    """A parser that can show the beginning of a large recording long before it has read all of it."""

    def preview(self, source: Source, most_events: int, progress: Progress) -> Trace | None:
        """A trace of about the first ``most_events``, made in a second at most; None where that cannot be done."""


@runtime_checkable
class InParts(Parser, Protocol):
    """A parser of recordings that lie in several files, such as a table of kernels and a table of calls."""

    def recording_of(self, source: Source) -> str:
        """What is the same for all parts of one recording."""

    def read_parts(self, sources: Sequence[Source], progress: Progress) -> Trace:
        """One trace of all parts; raises ``TraceError`` when none can be used."""


@runtime_checkable
class Excerpt(Parser, Protocol):
    """A parser of tables that hold a part of what a recording beside them holds."""

    excerpt_of: ClassVar[frozenset[str]]  # the formats of such recordings


P = TypeVar("P", bound=Parser)
_PARSERS: dict[str, Parser] = {}


def parser(cls: type[P]) -> type[P]:
    """Register a parser class."""
    instance = cls()
    _PARSERS[instance.format] = instance
    return cls


_FORMATS = f"{__package__.rpartition('.')[0]}.formats"
_KINETO = regex(rb'\s*\{\s*"schemaVersion"\s*:\s*\d+\s*,\s*"deviceProperties"\s*:')
_OF_KINETO = "chrome"  # its format


@cache
def _discover() -> None:
    load_all(_FORMATS)


def _kineto() -> Parser:
    importlib.import_module(f"{_FORMATS}.chrome_trace")
    return _PARSERS[_OF_KINETO]


def parsers() -> list[Parser]:
    """Every parser of ``parsers.formats``, in the order in which they are asked."""
    _discover()
    return sorted(_PARSERS.values(), key=lambda each: (each.priority, each.format))


def reopenable_parser(format: str) -> Reopenable | None:
    """The parser of a format whose traces may be kept in a cache; None where there is no such parser."""
    found = _kineto() if format == _OF_KINETO else {each.format: each for each in parsers()}.get(format)
    return found if found is not None and is_reopenable(found) else None


_FOLLOWS: dict[tuple[type[Parser], type], bool] = {}  # a protocol takes as long to ask as 50 events to read


def _follows(parser: Parser, protocol: type) -> bool:
    which = type(parser), protocol
    known = _FOLLOWS.get(which)
    return _FOLLOWS.setdefault(which, isinstance(parser, protocol)) if known is None else known


def is_reopenable(parser: Parser) -> TypeGuard[Reopenable]:
    """Whether a parser's traces may be kept in a cache."""
    return _follows(parser, Reopenable)


def is_in_parts(parser: Parser) -> TypeGuard[InParts]:
    """Whether recordings of a parser may lie in several files."""
    return _follows(parser, InParts)


def is_excerpt(parser: Parser) -> TypeGuard[Excerpt]:
    """Whether a parser reads a part of what recordings beside it hold."""
    return _follows(parser, Excerpt)


def parser_of(source: Source) -> Parser | None:
    """The first parser that recognises the source; None where no parser does.

    What begins as PyTorch's profiler writes it is nobody else's: loading all that read other formats takes a
    sixteenth of a small diagnosis.
    """
    if _KINETO.match(source.head):
        return _kineto()
    return next((each for each in parsers() if each.recognises(source)), None)
