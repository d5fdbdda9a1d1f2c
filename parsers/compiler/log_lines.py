"""Lines of a log of torch.compile put together to records: structured ones (TORCH_TRACE) and plain ones (TORCH_LOGS).

Every record begins like a line of glog: level, month, day, time, thread, file and line. What follows is JSON, whose
payload is in the lines after it that begin with a tab (torch/_logging/_internal.py, trace_structured), or text behind a
tag such as ``[0/1] [__recompiles]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from datetime import datetime

from parsers.files.unpacking_limit import LimitedStream
from parsers.model.late import dataclass, regex

MAX_LINE_LENGTH = 4 << 20  # bytes; the metrics of one compilation take 40 kB
_MAX_PAYLOAD = 64 << 10  # of what is looked at; generated code is not
START = regex(
    rb"(?:\[rank(?P<rank>\d{1,6})\]: ?)?[VDIWEC](?P<date>\d{4} \d\d:\d\d:\d\d\.\d{3,6}) (?P<thread>\d{1,20}) "
    rb"[^\]\n]{1,400}:\d{1,9}\] ?"
)
TAGGED = regex(
    rb"(?:\[!?(?P<id>\d{1,9}/\d{1,9})(?:_\d{1,9})?\] )?\[__(?P<tag>recompiles|graph_breaks)\] ?(?P<text>.*)",
    re.DOTALL,
)
_FIRST_OF_TEXT = (b"Recompiling function", b"Graph break")
_WANTED = (
    b'"compilation_metrics"',
    b'"bwd_compilation_metrics"',
    b'"recompile_reasons"',
    b'"dynamo_graph_break_reason"',
)
_NEW_YEAR = datetime(2000, 1, 1)  # of a leap year: the lines state none


@dataclass(slots=True)
class Record:
    """One record; ``local`` is its time of day in ns since the beginning of a leap year, in the writer's time zone."""

    local: int
    rank: int | None
    header: bytes  # the JSON of a structured one, the tag of a plain one
    compile_id: str  # "0/1" of a plain one
    lines: list[bytes] = field(default_factory=list)
    _length: int = 0

    @property
    def payload(self) -> str:
        return b"\n".join(self.lines).decode("utf-8", "replace")

    def add(self, line: bytes) -> None:
        """One more line of the payload, unless there is too much of it."""
        if self._length < _MAX_PAYLOAD:
            self.lines.append(line[:_MAX_PAYLOAD])
            self._length += len(line) + 1


@dataclass(slots=True)
class LogLines:
    """Counts what it passes over: ``records`` that begin like a line of glog, and lines that are too long."""

    records: int = 0
    too_long: int = 0

    def wanted(self, stream: LimitedStream) -> Iterator[Record]:
        current: Record | None = None
        for line in self._lines(stream):
            if line[:1] == b"\t":
                if current is not None and not current.compile_id:
                    current.add(line[1:])
                continue
            start = START.match(line)
            if start is None:
                continue
            self.records += 1
            found = _begun(start, line[start.end() :])
            if found is not None and current is not None and _continues(found, current):
                current.add(found.lines[0])
                continue
            if current is not None:
                yield current
            current = found
        if current is not None:
            yield current

    def _lines(self, stream: LimitedStream) -> Iterator[bytes]:
        rest, skipping = b"", False
        while block := stream.read():
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                if not skipping:
                    yield line
                skipping = False
            if len(rest) > MAX_LINE_LENGTH:
                self.too_long += not skipping
                rest, skipping = b"", True
        if rest and not skipping:
            yield rest


def _begun(start: re.Match[bytes], said: bytes) -> Record | None:
    """The record that such a line begins or continues; None for one of something else."""
    local = _local(start["date"])
    if local is None:
        return None
    rank = None if start["rank"] is None else int(start["rank"])
    if said[:1] == b"{":
        return Record(local, rank, said, "") if any(each in said for each in _WANTED) else None
    tagged = TAGGED.match(said)
    if tagged is None:
        return None
    return Record(local, rank, tagged["tag"], (tagged["id"] or b"0/0").decode(), [tagged["text"]])


def _continues(found: Record, current: Record) -> bool:
    """Whether a plain line says more of the record before it."""
    same = (found.header, found.compile_id, found.rank) == (current.header, current.compile_id, current.rank)
    return same and bool(found.compile_id) and not found.lines[0].startswith(_FIRST_OF_TEXT)


def _local(date: bytes) -> int | None:
    try:
        moment = datetime.strptime(f"{_NEW_YEAR.year}{date.decode()}", "%Y%m%d %H:%M:%S.%f")
    except ValueError:
        return None
    since = moment - _NEW_YEAR
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
