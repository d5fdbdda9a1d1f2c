"""Requests of serving engines: logs with a line for each, and traces of Triton Inference Server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from parsers.files.base import Accompanying, Source, parser
from parsers.files.decoders import UNREADABLE, from_json_of
from parsers.files.unpacking_limit import whole_content
from parsers.model import Effect, EventKind, Lane, LaneKind, Malformed, Progress, Trace
from parsers.model.arrays import MAX_NUMBER
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.nesting import lowest_free_rows
from parsers.model.results import REQUEST_LOG, REQUEST_LOG_TITLE, Cell, ResultTable
from parsers.model.units import NS_PER_MS

_FIRST_LINE = regex(rb"(?:\xef\xbb\xbf)?\s*(\{[^{}\n]{1,2000}\})\s*(?:\n|$)")
_KEYS = tuple(regex(rb'"' + key + rb'"\s*:') for key in (b"arrival", b"first", b"end", b"out"))
_MAX_REQUESTS = 100_000
_LINES_AT_ONCE = 1_000


_Whole = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


class _Request(msgspec.Struct):
    """One line; times are wall clock in ns, None while they have not come."""

    arrival: _Whole
    id: _Whole | str | None = None
    first: _Whole | None = None
    end: _Whole | None = None
    prompt: _Whole | None = None
    out: _Whole | None = None

    @property
    def is_in_order(self) -> bool:
        """Whether nothing comes before the arrival, and the end not before the first token."""
        known = [time for time in (self.arrival, self.first, self.end) if time is not None]
        return known == sorted(known)


@parser
class RequestLog(Accompanying):
    """A log with one line a request, recognised by the keys of its first line."""

    format = "request-log"
    title = "benchmarks"
    files = "request logs (JSON lines)"
    suffixes = (".jsonl",)
    priority = 44
    version = 3

    def recognises(self, source: Source) -> bool:
        first = _FIRST_LINE.match(source.head)
        return first is not None and all(key.search(first[1]) for key in _KEYS)

    def read(self, source: Source, progress: Progress) -> Trace:
        content = whole_content(
            source, progress.part(0.0, 0.3), "reading requests", "Keep its first requests."
        )
        lines = [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
        requests = _requests(lines, progress.part(0.3, 0.9))
        if not requests:
            raise Malformed(source.path, "No line of this request log can be read.", "Write it again.")
        kept = sorted(requests, key=lambda each: each.arrival)[:_MAX_REQUESTS]
        builder = TraceBuilder()
        builder.tables.append(_table(Path(source.shown or source.path).name, kept))
        builder.quality.read(len(lines))
        builder.quality.keep(len(kept))
        for kind, reason, count in (
            (
                "damaged",
                "lines that are not requests, or whose times run backwards",
                len(lines) - len(requests),
            ),
            (
                "rows-left-out",
                f"only the first {_MAX_REQUESTS:,} requests of a log are read",
                len(requests) - len(kept),
            ),
        ):
            builder.quality.note(kind, Effect.QUARANTINED, reason, "", count)
        builder.came_from(source.name, self.format, "request log")
        return builder.build(progress.part(0.9, 1.0))


def _requests(lines: list[bytes], progress: Progress) -> list[_Request]:
    found: list[_Request] = []
    decode = msgspec.json.Decoder(_Request).decode
    for begin in range(0, len(lines), _LINES_AT_ONCE):
        progress.step(begin / len(lines), "reading requests")
        for line in lines[begin : begin + _LINES_AT_ONCE]:
            try:
                request = decode(line)
            except UNREADABLE:
                continue
            if request.is_in_order:
                found.append(request)
    return found


def _table(name: str, requests: list[_Request]) -> ResultTable:
    """Times in ms since the first arrival."""
    begin = requests[0].arrival
    rows: list[tuple[Cell, ...]] = [
        (
            float(each.id) if isinstance(each.id, int) else each.id,
            *(
                None if time is None else (time - begin) / NS_PER_MS
                for time in (each.arrival, each.first, each.end)
            ),
            *(None if count is None else float(count) for count in (each.prompt, each.out)),
        )
        for each in requests
    ]
    return ResultTable(REQUEST_LOG_TITLE + name, REQUEST_LOG, tuple(rows), begin)


_TRITON_START = regex(
    rb'\s*\[\s*\{\s*"id"\s*:\s*\d+\s*,\s*"(?:model_name|model_version|timestamps|parent_id|request_id|activity)"'
)
_TELLING = regex(rb'"(?:QUEUE|COMPUTE|REQUEST|HTTP_RECV|GRPC_WAITREAD)_(?:START|END|INPUT_END|OUTPUT_START)"')
_MAX_BYTES = 512 << 20
_HINT = "Stop the server, or wait until it has written the file: --trace-config triton,file=trace.json."
_MAX_NAME_LENGTH = 200
# ns since 1970 in 2001; a clock that counts from the start says less
_OF_WALL_CLOCK = 1_000_000_000_000_000_000
_REQUEST = ("REQUEST_START", "REQUEST_END")
# The stages in their order, each with the moments at which it begins and ends.
_STAGES = (
    ("receive", "HTTP_RECV_START", "HTTP_RECV_END"),
    ("receive", "GRPC_WAITREAD_START", "GRPC_WAITREAD_END"),
    ("queue", "QUEUE_START", "COMPUTE_START"),
    ("compute input", "COMPUTE_START", "COMPUTE_INPUT_END"),
    ("compute", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    ("compute output", "COMPUTE_OUTPUT_START", "COMPUTE_END"),
    ("send", "HTTP_SEND_START", "HTTP_SEND_END"),
    ("send", "GRPC_SEND_START", "GRPC_SEND_END"),
)


class _Moment(msgspec.Struct, gc=False):
    name: str = ""
    ns: int = -1


class _Entry(msgspec.Struct, gc=False):
    """One of several entries of a request: its model, or some of its moments."""

    id: int
    model_name: str = ""
    timestamps: tuple[_Moment, ...] = ()
    activity: str = ""


class _TritonRequest:
    """What is known of one request: the model that answers it, and its moments by name, ns."""

    __slots__ = ("model", "moments")

    def __init__(self) -> None:
        self.model = ""
        self.moments: dict[str, int] = {}

    def of(self, begin: str, end: str) -> tuple[int, int] | None:
        """A stage that begins and ends, in this order."""
        start, finish = self.moments.get(begin), self.moments.get(end)
        return (start, finish) if start is not None and finish is not None and finish >= start else None

    @property
    def whole(self) -> tuple[int, int] | None:
        stages = [found for _, begin, end in _STAGES if (found := self.of(begin, end)) is not None]
        if (stated := self.of(*_REQUEST)) is not None:
            stages.append(stated)
        return (min(start for start, _ in stages), max(end for _, end in stages)) if stages else None


@parser
class TritonServerTrace(Accompanying):
    """Recognised by its first entry, and by the names of the server's moments."""

    format = "triton-server-trace"
    title = "Triton Inference Server"
    files = "request traces (--trace-config)"
    suffixes = (".json",)
    priority = 45

    def recognises(self, source: Source) -> bool:
        return _TRITON_START.match(source.head) is not None and _TELLING.search(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        fewer = "Trace fewer requests: --trace-config rate=1000."
        content = whole_content(source, progress.part(0.0, 0.4), "reading requests", fewer, _MAX_BYTES)
        entries = from_json_of(source, content, list[_Entry], "This request trace", _HINT)
        requests = _triton_requests(entries, progress.part(0.4, 0.6))
        builder = TraceBuilder()
        complete = [(each.model, each, whole) for each in requests if (whole := each.whole) is not None]
        if lost := len(requests) - len(complete):
            builder.quality.read(lost)
            reason = (
                "requests without a stage that begins and ends: the trace was cut, or they were still running"
            )
            builder.quality.note("unfinished request", Effect.QUARANTINED, reason, "", lost)
        if not complete:
            raise Malformed(source.path, "No request in this trace has both a start and an end.", _HINT)
        begin = min(start for _, _, (start, _) in complete)
        builder.epoch_ns = 0 if begin >= _OF_WALL_CLOCK else None
        for model in dict.fromkeys(model for model, _, _ in complete):
            progress.step(0.7, f"placing requests of {model}")
            mine = [(each, whole) for name, each, whole in complete if name == model]
            _add(builder, model, mine)
        builder.came_from(source.name, self.format, "Triton Inference Server")
        return builder.build(progress.part(0.8, 1.0))


def _triton_requests(entries: Sequence[_Entry], progress: Progress) -> list[_TritonRequest]:
    """The entries of each number together; moments that no clock can state are left out."""
    found: dict[int, _TritonRequest] = {}
    for index, entry in enumerate(entries):
        if index % 4096 == 0:
            progress.step(index / len(entries), "joining what belongs to a request")
        request = found.get(entry.id)
        if request is None:
            request = found[entry.id] = _TritonRequest()
        request.model = request.model or entry.model_name[:_MAX_NAME_LENGTH]
        for moment in entry.timestamps:
            if 0 <= moment.ns < MAX_NUMBER:
                request.moments.setdefault(moment.name, moment.ns)
    return list(found.values())


def _add(builder: TraceBuilder, model: str, requests: list[tuple[_TritonRequest, tuple[int, int]]]) -> None:
    """A model's requests, each with its stages inside it, on as many lanes as were served at once."""
    requests = sorted(requests, key=lambda each: each[1])
    spans = np.array([whole for _, whole in requests], np.int64)
    rows = lowest_free_rows(spans[:, 0], spans[:, 1]).tolist()
    lanes = [
        builder.lane(Lane(LaneKind.SERVED, f"{model or 'model'} #{number + 1}"))
        for number in range(max(rows) + 1)
    ]
    starts, ends, names, of_lanes = [], [], [], []
    title = builder.string(f"request to {model or 'a model'}")
    for (request, whole), row in zip(requests, rows, strict=True):
        stages = [(title, *whole)]
        for name, begin, end in _STAGES:
            if (found := request.of(begin, end)) is not None and found[1] > found[0]:
                stages.append((builder.string(name), *found))
        for string, start, finish in stages:
            starts.append(start)
            ends.append(finish)
            names.append(string)
            of_lanes.append(lanes[row])
    builder.quality.read(len(starts))
    columns = [np.array(column, np.int64) for column in (starts, ends, names, of_lanes)]
    builder.add(columns[0], columns[1], columns[2], columns[3], EventKind.OTHER)
