"""What a command said of large recordings, kept beside the cache of traces: asked again, it is said at once.

An answer belongs to the question (the command and all its options that matter), to the files as they are, and to the
code of the whole program. Where any of it changed there is no answer, and everything is found out anew.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parsers.stored import cache as stored_cache
from parsers.stored import columns as stored_columns
from parsers.stored.entries import Entries
from viewer.terminal.console import complain

if TYPE_CHECKING:
    from parsers.model import Trace

ENTRIES = Entries("answers", most_bytes=64_000_000)
MAX_BYTES = 16_000_000  # of one answer
MIN_BYTES = 1 << 20  # of files: smaller ones, packed too, hold fewer events than are worth it
_BESIDE = ("-wal", "-journal")  # what SQLite keeps of a database outside of it
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is printed, the exit code, and what is complained of with it."""

    text: str
    code: int
    complaint: str = ""

    def tell(self) -> int:
        """Print it; the exit code."""
        sys.stdout.write(self.text)
        sys.stdout.flush()
        if self.complaint:
            complain(self.complaint)
        return self.code


@dataclass(frozen=True, slots=True)
class Question:
    """What a command is asked about which files; ``key`` is where its answer is kept."""

    key: str
    files: frozenset[str]

    def kept(self) -> Answer | None:
        """The answer that was given before; None where there is none, or where it is damaged."""
        content = ENTRIES.read(self.key)
        if content is None:
            return None
        try:
            words, _ = stored_columns.decoded(content)
            return msgspec.msgpack.decode(words, type=Answer)
        except (ValueError, msgspec.MsgspecError):
            _LOG.info("a kept answer could not be used", exc_info=True)
            return None

    def keep(self, answer: Answer, trace: Trace) -> None:
        """Keep the answer that was found in a trace, if that is large, and the files are what they were when read."""
        read = {str(Path(each.file).resolve()) for each in trace.inputs if each.file}
        is_large = len(trace.events) >= stored_cache.MIN_EVENTS
        if not is_large or read != self.files or stored_cache.changed_files(trace):
            return
        try:
            content = stored_columns.encoded({}, msgspec.msgpack.encode(answer))
        except ValueError:  # a name that is no text
            return
        if len(content) <= MAX_BYTES:
            ENTRIES.write(self.key, content)
            ENTRIES.trim()


def question_of(names: Sequence[str], asked: Mapping[str, Any]) -> Question | None:
    """The question of a command; None where the files are small, or where they are no files that stay as they are."""
    states: list[tuple[str, ...]] = []
    total, files = 0, []
    for name in names:
        path = Path(name)
        try:
            if not path.is_file():
                return None
            file = path.resolve()
            states += [_state(each) for each in (file, *(Path(f"{file}{end}") for end in _BESIDE))]
            total += file.stat().st_size
        except (OSError, ValueError):
            return None
        files.append(str(file))
    if total < MIN_BYTES:
        return None
    stated = repr((sorted(asked.items()), list(names), states, program())).encode("utf-8", "surrogateescape")
    return Question(hashlib.sha256(stated).hexdigest()[:32], frozenset(files))


def _state(file: Path) -> tuple[str, ...]:
    """Which file it is and how it is now; writing to it changes the last number even where the others are set back."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return (str(file),)
    numbers = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return str(file), *map(str, numbers)


@cache
def program() -> str:
    """The code of the whole program in a few digits: another program may judge otherwise."""
    digest = hashlib.blake2b(sys.version.encode(), digest_size=16)
    if getattr(sys, "frozen", False):
        digest.update(repr(_state(Path(sys.executable))).encode())
        return digest.hexdigest()
    root = Path(__file__).resolve().parents[2]
    packages = sorted(each.parent for each in root.glob("*/__init__.py"))
    for file in (file for package in packages for file in sorted(package.rglob("*.py"))):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
