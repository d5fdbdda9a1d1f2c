"""What is killed, starved and disturbed: one command of each kind on a recording that makes it work."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from parsers.model.late import dataclass
from tests.processes.place import Done, Place, Running, Word
from tests.processes.recordings import Recordings

GIVEN, OTHER = "given", "other"  # words that stand for the recordings
WRITTEN = "written/"  # begins a word that names what is written
LOOKED_AT_S = 4.0  # how long a window is open
_QUESTION = "SELECT name, sum(duration_ns) AS total FROM kernels GROUP BY name ORDER BY total DESC, name"


def mcp_request(path: Path) -> bytes:
    """What an assistant sends that greets the server and asks for a diagnosis."""
    greeting = {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}
    }  # fmt: skip
    messages: list[Mapping[str, object]] = [
        {"id": 1, "method": "initialize", "params": greeting},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "diagnose", "arguments": {"path": str(path)}}},
    ]
    return b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages)


@dataclass(frozen=True, slots=True)
class Subject:
    """A command and what it reads; ``lasts`` says that it goes on until somebody ends it."""

    name: str
    line: str
    recording: Callable[[Recordings], Path]
    first: str = ""  # what has to be run before
    lasts: bool = False
    is_same_again: bool = True  # prints the same each time
    codes: frozenset[int] = field(default=frozenset({0}))

    def __str__(self) -> str:
        return self.name

    def words(self, place: Place, recordings: Recordings, line: str = "") -> list[Word]:
        """The words of the command in a place, which gets what is read."""
        source = self.recording(recordings)
        words: list[Word] = []
        for word in (line or self.line).split():
            if word in (GIVEN, OTHER):
                name = source.name if word == GIVEN else f"other-{source.name}"
                path = place.given / name
                words.append(path if path.exists() else place.give(source, name))
            elif word.startswith(WRITTEN):
                words.append(place.written / word.removeprefix(WRITTEN))
            else:
                words.append(_QUESTION if word == "QUESTION" else word)
        return words

    def prepare(self, place: Place, recordings: Recordings) -> None:
        """Run what has to come before."""
        if self.first:
            done = place.run(*self.words(place, recordings, self.first))
            assert done.code == 0, done.err

    def to_its_end(self, place: Place, recordings: Recordings) -> Done:
        """Run it as usual; what lasts is ended as usual."""
        with place.started(*self.words(place, recordings), stdin=-1) as running:
            return self.ended(place, recordings, running)

    def ended(self, place: Place, recordings: Recordings, running: Running) -> Done:
        """Wait for the usual end of what was started with a pipe as its input."""
        if self.lasts:
            time.sleep(LOOKED_AT_S)
            running.send(signal.SIGTERM)
        return running.done(self.asked(place, recordings))

    def asked(self, place: Place, recordings: Recordings) -> bytes:
        """What it gets on its standard input."""
        return mcp_request(place.given / self.recording(recordings).name) if self.name == "mcp" else b""


def _json(recordings: Recordings) -> Path:
    return recordings.json()


def _packed(recordings: Recordings) -> Path:
    return recordings.packed()


def _archive(recordings: Recordings) -> Path:
    return recordings.archive()


def _database(recordings: Recordings) -> Path:
    return recordings.database()


def _ranks(recordings: Recordings) -> Path:
    return recordings.ranks()


SUBJECTS = (
    Subject("diagnose", "diagnose given --json", _json),
    Subject("diagnose-gz", "diagnose given", _packed),
    Subject("diagnose-zip", "diagnose given", _archive),
    Subject("diagnose-nsys", "diagnose given --html written/page.html", _database),
    Subject("diagnose-ranks", "diagnose given --markdown written/page.md", _ranks),
    Subject("whatif", "whatif given --json", _json),
    Subject("compare", "compare given other --json", _json),
    Subject("baseline", "baseline save main given", _json, is_same_again=False, codes=frozenset({0, 1})),
    Subject("trend", "trend main --json", _json, first="baseline save main given"),
    Subject("query", "query given QUESTION --format csv", _json),
    Subject("query-out", "query given cuda_gpu_kern_sum --out written/rows.parquet", _packed),
    Subject("convert-chrome", "convert given --to chrome written/converted.json", _json),
    Subject("convert-csv", "convert given --to csv written/converted.csv", _database),
    Subject("convert-parquet", "convert given --to parquet written/converted.parquet", _archive),
    Subject("mcp", "mcp given", _json, is_same_again=False),
    Subject("self-check", "self-check", _json),
    Subject("window", "given --separate", _packed, lasts=True, codes=frozenset({128 + signal.SIGTERM, 0})),
)
