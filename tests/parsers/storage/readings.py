"""What each parser whose traces are kept makes of the fixtures, as numbers that are written down with its version.

``python -m tests.parsers.storage.readings`` writes them anew, after a version was raised.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec
import numpy as np

from parsers.files.base import Reopenable, parser_of, parsers
from parsers.files.source import identify
from parsers.model import Progress, Trace

RECORDED = Path(__file__).with_name("readings.json")
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
NO_RECORDINGS = (".py", ".toml", ".md")
GOLDEN = ("summaries.json", "times.json", "truth.json")
# of the same formats, or of none
OTHER_SUBJECTS = ("rules", "refused", "pairs", "variants", "ddp", "programs")
_PLAIN = ("strings", "devices", "ranks", "capture", "epoch_ns")

Readings = dict[str, tuple[int, dict[str, str]]]  # format -> version, and digests of files


def readings() -> Readings:
    """Version and digests of every parser whose traces are kept in the cache."""
    made: Readings = {each.format: (each.version, {}) for each in parsers() if isinstance(each, Reopenable)}
    for file in sorted(FIXTURES.glob("*/*")):
        if not file.is_file() or file.suffix in NO_RECORDINGS or file.name.endswith(GOLDEN):
            continue
        if file.parent.name in OTHER_SUBJECTS:
            continue
        parser = parser_of(source := identify(file))
        if parser is not None and parser.format in made:
            digests = made[parser.format][1]
            digests[f"{file.parent.name}/{file.name}"] = digest(parser.read(source, Progress()))
    return made


def digest(trace: Trace) -> str:
    """A number of everything that a parser finds out; its wording of notes is left out."""
    found = hashlib.sha256()
    events = trace.events
    columns = [
        events.start,
        events.end,
        events.name,
        events.lane,
        events.depth,
        events.kind,
        events.source_row,
    ]
    columns += [trace.links.operation, trace.links.launch]
    for _, column in sorted(trace.attributes.items(), key=lambda each: each[0].value):
        columns += [column.event, column.value]
    columns += [each.time for each in trace.counters]
    columns += [column for memory in trace.memory for _, column in sorted(memory.columns().items())]
    for column in columns:
        found.update(np.ascontiguousarray(column).astype("<i8").tobytes())
    for counter in trace.counters:
        found.update(" ".join(f"{value:.6g}" for value in counter.value.tolist()).encode())
    plain = {name: getattr(trace, name) for name in _PLAIN}
    lanes = [(lane.kind.name, msgspec.to_builtins(lane)) for lane in trace.lanes]
    losses = [(note.kind, note.effect, note.count) for note in trace.quality.notes]
    found.update(msgspec.json.encode([plain, lanes, losses, [each.name for each in trace.counters]]))
    return found.hexdigest()[:16]


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(readings(), indent=1) + "\n", "utf-8")
