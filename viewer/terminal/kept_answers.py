"""What a command said of recordings, kept beside the cache of traces: asked again, it is said at once.

An answer belongs to the question (the command and all its options that matter), to the files as they are, to what is
kept of trials, which stands beside promises, and to the code of the whole program. Where any of it changed there is no
answer, and everything is found out anew. A kept answer is told before numpy, or anything that reads, is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model.late import dataclass
from parsers.storage.entries import Entries
from viewer.terminal.console import complain
from viewer.user_data.storage import RUNS_FILE, data_folder

if TYPE_CHECKING:
    from parsers.model import Trace

ENTRIES = Entries("answers", most_bytes=64_000_000)
MAX_BYTES = 16_000_000  # of one answer
_BESIDE = ("-wal", "-journal")  # what SQLite keeps of a database outside of it
_PACKAGES = "stallscope", "viewer", "rules", "parsers", "resources"
_CHECKED = hashlib.sha256


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
        content = ENTRIES.read(self.key) or b""
        checksum, said = content[: _CHECKED().digest_size], content[_CHECKED().digest_size :]
        return Answer(**json.loads(said)) if said and _CHECKED(said).digest() == checksum else None

    def keep(self, answer: Answer, trace: Trace) -> None:
        """Keep the answer that was found in a trace, if the files are what they were when they were read."""
        from parsers.storage.cache import changed_files

        read = {str(Path(each.file).resolve()) for each in trace.inputs if each.file}
        if read != self.files or changed_files(trace):
            return
        said = json.dumps(asdict(answer)).encode()
        if len(said) <= MAX_BYTES:
            ENTRIES.write(self.key, _CHECKED(said).digest() + said)
            ENTRIES.trim()


def question_of(names: Sequence[str], asked: Mapping[str, Any]) -> Question | None:
    """The question of a command; None where they are no files that stay as they are."""
    states: list[tuple[str, ...]] = []
    files = []
    for name in names:
        path = Path(name)
        try:
            if not path.is_file():
                return None
            file = path.resolve()
            states += [_state(each) for each in (file, *(Path(f"{file}{end}") for end in _BESIDE))]
        except (OSError, ValueError):
            return None
        files.append(str(file))
    try:
        states.append(_state(data_folder() / RUNS_FILE))
    except OSError:
        return None
    stated = repr((sorted(asked.items()), list(names), states, program())).encode("utf-8", "surrogateescape")
    return Question(hashlib.sha256(stated).hexdigest()[:32], frozenset(files))


def _state(file: Path | str) -> tuple[str, ...]:
    """Which file it is and how it is now; writing to it changes the last number even where the others are set back."""
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return (str(file),)
    numbers = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return str(file), *map(str, numbers)


@cache
def program() -> str:
    """The code of the whole program in a few digits: another program may judge otherwise."""
    digest = hashlib.sha256(sys.version.encode())
    if getattr(sys, "frozen", False):
        files = [sys.executable]
    else:
        root = Path(__file__).resolve().parents[2]
        files = sorted(file for package in _PACKAGES for file in _files(os.path.join(root, package)))
    states = "\n".join("\0".join(_state(file)) for file in files)
    digest.update(states.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(folder: str) -> Iterator[str]:
    """What a package is made of, without what Python makes of it."""
    try:
        inside = os.scandir(folder)
    except OSError:  # an installation need not have all of them
        return
    with inside:
        for each in inside:
            if not each.is_dir(follow_symlinks=False):
                yield each.path
            elif each.name != "__pycache__":
                yield from _files(each.path)
