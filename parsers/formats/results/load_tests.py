"""Load tests of serving engines as JSON: results of genai-perf, and request logs with one line a request."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from parsers.files.base import Parser, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Effect, Malformed, Progress, ResultColumn, ResultTable, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late.regex import regex
from parsers.model.results import REQUEST_LOG, REQUEST_LOG_TITLE, Cell, rows_shown
from parsers.model.units import NS_PER_MS

_START = regex(rb"\s*\{")
_METRIC = regex(
    rb'"(time_to_first_token|inter_token_latency|output_token_throughput|request_throughput)"\s*:\s*\{[^{}]*"avg"'
)
_FIGURES = ("avg", "p50", "p90", "p95", "p99", "min", "max", "std")

_FIRST_LINE = regex(rb"(?:\xef\xbb\xbf)?\s*(\{[^{}\n]{1,2000}\})\s*(?:\n|$)")
_KEYS = tuple(regex(rb'"' + key + rb'"\s*:') for key in (b"arrival", b"first", b"end", b"out"))
_MAX_REQUESTS = 100_000
_LINES_AT_ONCE = 1_000


@parser
class GenaiPerf(Parser):
    """Results of genai-perf (profile_export_genai_perf.json), recognised by their metrics."""

    format = "genai-perf"
    accompanies = True
    title = "benchmarks"
    files = "JSON of genai-perf"
    suffixes = (".json",)
    priority = 46

    def recognises(self, source: Source) -> bool:
        head = source.head
        return _START.match(head) is not None and b'"avg"' in head and _METRIC.search(head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        with open_bytes(source) as stream:
            content = LimitedStream(stream, source, progress, "reading results").whole("Write them again.")
        try:
            stated: Any = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Malformed(
                source.path, f"These results cannot be read ({error}).", "Write them again."
            ) from error
        rows: list[tuple[Cell, ...]] = [
            (name, _text(metric.get("unit")), *(_number(metric.get(figure)) for figure in _FIGURES))
            for name, metric in (stated.items() if isinstance(stated, dict) else ())
            if isinstance(metric, dict) and _number(metric.get("avg")) is not None
        ]
        if not rows:
            raise Malformed(source.path, "These results contain no metrics.", "Let the load test finish.")
        builder = TraceBuilder()
        columns = tuple(ResultColumn(name) for name in ("metric", "unit", *_FIGURES))
        shown = rows[: rows_shown(builder.quality, len(rows))]
        builder.tables.append(ResultTable("Load test of genai-perf", columns, tuple(shown)))
        builder.came_from(source.name, self.format, "genai-perf")
        return builder.build(progress)


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


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
class RequestLog(Parser):
    """A log with one line a request, recognised by the keys of its first line."""

    format = "request-log"
    accompanies = True
    title = "benchmarks"
    files = "request logs (JSON lines)"
    suffixes = (".jsonl",)
    priority = 44
    version = 3

    def recognises(self, source: Source) -> bool:
        first = _FIRST_LINE.match(source.head)
        return first is not None and all(key.search(first[1]) for key in _KEYS)

    def read(self, source: Source, progress: Progress) -> Trace:
        with open_bytes(source) as stream:
            limited = LimitedStream(stream, source, progress.part(0.0, 0.3), "reading requests")
            content = limited.whole("Keep its first requests.")
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
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
