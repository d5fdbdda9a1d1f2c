"""What travels between processes and machines: what is asked about a rank, and its summary as bytes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from parsers.files.decoders import from_msgpack
from parsers.model.late import dataclass
from parsers.storage import cache as stored_cache
from parsers.storage import columns as stored_columns
from parsers.storage.columns import NotAsWritten
from parsers.storage.entries import Entries
from parsers.storage.traces import described_type
from rules.summaries.rank_summary import RankSummary, SummaryWords


@dataclass(frozen=True, slots=True)
class Wanted:
    """One recording: the paths or addresses of its files, what to call it, and the thresholds that were chosen."""

    files: tuple[str, ...]
    shown: str
    thresholds: tuple[tuple[str, float], ...] = ()
    remote: bool = False  # its files are addresses that fsspec opens
    format: str = ""  # what they were recognised as, if somebody has looked


@dataclass(frozen=True, slots=True)
class Reduced:
    """The summary as bytes, or why there is none, in one sentence."""

    content: bytes = b""
    problem: str = ""


ENTRIES = Entries("summaries", most_bytes=1_000_000_000)
_FORMAT = 2
_LOG = logging.getLogger(__name__)


def as_bytes(summary: RankSummary) -> bytes:
    """A summary in the stored form of columns."""
    words = _meaning().encode() + msgspec.msgpack.encode(summary.words)
    return stored_columns.encoded(summary.columns, words)


def summary_of_bytes(content: bytes) -> RankSummary:
    """What ``as_bytes`` was given; raises ``ValueError`` and ``msgspec.MsgspecError`` for anything else."""
    words, columns = stored_columns.decoded(content)
    if not words.startswith(_meaning().encode()):
        raise NotAsWritten("its numbers had other meanings when it was written")
    return RankSummary(from_msgpack(words[len(_meaning()) :], SummaryWords), columns)


def key_of(path: Path, thresholds: Mapping[str, float]) -> str | None:
    """What a file's summary is called as the file is now; None when the file cannot be asked."""
    state = stored_cache.state_of(path)
    return None if state is None else key_at(str(path.resolve()), state, thresholds)


def key_at(place: str, state: tuple[int, int], thresholds: Mapping[str, float]) -> str:
    """The same of a file at a path or an address, of so many bytes, changed then (ns)."""
    chosen = ",".join(f"{name}={value}" for name, value in sorted(thresholds.items()))
    text = f"{_meaning()}\0{chosen}\0{place}\0{state[0]}\0{state[1]}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def kept(key: str | None) -> RankSummary | None:
    """The summary of that name; None where there is none, or where it is damaged."""
    if key is None:
        return None
    content = ENTRIES.read(key)
    try:
        return None if content is None else summary_of_bytes(content)
    except (ValueError, KeyError, msgspec.MsgspecError):
        _LOG.info("a kept summary could not be used", exc_info=True)
        return None


def keep(key: str | None, content: bytes) -> None:
    """Keep a summary under that name; where there is no room it is not kept."""
    if key is not None:
        ENTRIES.write(key, content)


@cache
def _meaning() -> str:
    """What the numbers stand for, and which program made them: another version may judge otherwise."""
    try:
        program = version("stallscope")
    except PackageNotFoundError:
        program = "from source"
    parsers = _parser_versions()
    text = "\n".join([f"format {_FORMAT}", program, parsers, *described_type(SummaryWords)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _parser_versions() -> str:
    from parsers.files.base import parsers

    return " ".join(f"{each.format}={each.version}" for each in parsers())
