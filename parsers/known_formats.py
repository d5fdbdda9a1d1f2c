"""What can be read, as each parser says it of itself: for the file dialog, the desktop, and refusals."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from parsers.files.base import OwnSuffixes, Parser, Presuming, parser_of, parsers
from parsers.files.containers import is_archive
from parsers.files.signatures import PACKED_SUFFIXES
from parsers.files.source import identify
from parsers.model import TraceError
from parsers.model.late import dataclass


@dataclass(frozen=True, slots=True)
class Recorder:
    """The formats of one recorder: what is read of its files, and how their names usually end."""

    title: str
    files: tuple[str, ...]
    suffixes: tuple[str, ...]

    @property
    def text(self) -> str:
        return "; ".join(self.files)


def recorders() -> tuple[Recorder, ...]:
    """Every recorder whose files are read, by name."""
    by_title: dict[str, list[Parser]] = {}
    for each in parsers():
        if each.title:
            by_title.setdefault(each.title, []).append(each)
    return tuple(
        Recorder(
            title,
            tuple(each.files for each in mine),
            _distinct(suffix for each in mine for suffix in each.suffixes),
        )
        for title, mine in sorted(by_title.items(), key=lambda each: each[0].casefold())
    )


def looks_like(path: Path) -> str:
    """What kind of recording a file seems to be by its first bytes, as part of a sentence; "" for anything else."""
    try:
        source = identify(path)
    except TraceError:
        return ""
    if is_archive(source):
        return "an archive of recordings"
    parser = parser_of(source)
    if (
        parser is None
        or not parser.title
        or (isinstance(parser, Presuming) and not parser.is_certain(source))
    ):
        return ""
    return f"a recording of {parser.title}"


def usual_suffixes() -> tuple[str, ...]:
    """How names of recordings end, packed ones included."""
    return _distinct(suffix for each in recorders() for suffix in each.suffixes) + PACKED_SUFFIXES


def own_suffixes() -> dict[str, tuple[str, str]]:
    """Endings that no other program's files have: the media type of such files and the recorder."""
    return {
        suffix: (media_type, each.title)
        for each in parsers()
        if isinstance(each, OwnSuffixes)
        for suffix, media_type in each.media_types.items()
    }


def what_is_read() -> str:
    """The sentence for files that no parser recognises."""
    *most, last = (each.title for each in recorders())
    return f"It reads recordings of {', '.join(most)} and {last}."


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
