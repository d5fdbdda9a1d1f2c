"""Load tests of serving engines: JSON of genai-perf, vLLM and SGLang, and what two of these print."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import replace
from typing import Any

import msgspec

from parsers.files.base import Accompanying, Source, parser
from parsers.files.decoders import UNREADABLE
from parsers.files.texts import decoded
from parsers.files.unpacking_limit import whole_content
from parsers.model import Malformed, Progress, Trace
from parsers.model.builder import MAX_TABLES, TraceBuilder
from parsers.model.late import regex
from parsers.model.results import Cell, LoadTest, RequestPart, ResultColumn, ResultTable, rows_shown
from parsers.model.units import NS_PER_MS, NS_PER_S

_START = regex(rb"\s*\{")
_METRIC = regex(
    rb'"(time_to_first_token|inter_token_latency|output_token_throughput|request_throughput)"\s*:\s*\{[^{}]*"avg"'
)
FIGURES = ("avg", "p50", "p90", "p95", "p99", "min", "max", "std")
_COLUMNS = tuple(ResultColumn(name) for name in ("metric", "unit", *FIGURES))
_OF_A_REQUEST = ("time_to_first_token", "request_latency", "inter_token_latency")
Row = tuple[Cell, ...]


@parser
class GenaiPerf(Accompanying):
    """Results of genai-perf (profile_export_genai_perf.json), recognised by their metrics."""

    format = "genai-perf"
    title = "benchmarks"
    files = "JSON of genai-perf"
    suffixes = (".json",)
    priority = 46
    version = 3

    def recognises(self, source: Source) -> bool:
        head = source.head
        return _START.match(head) is not None and b'"avg"' in head and _METRIC.search(head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        stated = decoded_json(whole_results(source, progress))
        if stated is None:
            raise Malformed(source.path, "These results cannot be read.", "Write them again.")
        rows: list[Row] = [
            (name, _text(metric.get("unit")), *(number_of(metric.get(figure)) for figure in FIGURES))
            for name, metric in (stated.items() if isinstance(stated, dict) else ())
            if isinstance(metric, dict) and number_of(metric.get("avg")) is not None
        ]
        means, halves = ({row[0]: number_of(row[at]) for row in rows if row[1] == "ms"} for at in (2, 3))
        first, whole, token = (means.get(name) or 0.0 for name in _OF_A_REQUEST)
        load = of_tokens(first, whole, token, 0.0, half_first_ms=halves.get(_OF_A_REQUEST[0]) or 0.0)
        tables = [("Load test of genai-perf", rows, load)]
        return load_test_trace(source, (self.format, "genai-perf"), tables, progress)


_RATE = regex(rb'"(?:request|output)_throughput"\s*:\s*\d')
_NO_NUMBER = regex(rb"(?<=[:\[,]) ?(?:-?Infinity|NaN)\b")  # as Python writes what is none
_LATENCY = regex(r"(mean|median|std|p\d{2})_(\w{1,40})_ms")
_FIGURE_OF = {"mean": "avg", "median": "p50"}
_WHOLE_REQUEST = ("e2e_latency", "e2el")
_RATES = {
    "request_throughput": "requests/s",
    "input_throughput": "tokens/s",
    "output_throughput": "tokens/s",
    "total_throughput": "tokens/s",
    "total_token_throughput": "tokens/s",
    "duration": "s",
    "completed": "requests",
    "concurrency": "requests",
}


@parser
class BenchServing(Accompanying):
    """What the load tests of vLLM and SGLang save, an object for each of them, recognised by its keys."""

    format = "bench-serving"
    title = "benchmarks"
    files = "JSON of the load tests of vLLM and SGLang"
    suffixes = (".json", ".jsonl")
    priority = 46
    version = 4

    def recognises(self, source: Source) -> bool:
        head = source.head
        return _START.match(head) is not None and b'"completed"' in head and _RATE.search(head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        content = _NO_NUMBER.sub(b"null", whole_results(source, progress))
        tests = [decoded_json(content)]
        if tests == [None]:
            tests = [decoded_json(line) for line in content.splitlines() if line.strip()]
        tables = [
            (_title(test), _measured(test), _load(test))
            for test in tests[:MAX_TABLES]
            if isinstance(test, dict)
        ]
        return load_test_trace(source, (self.format, "bench_serving"), tables, progress)


_DECIMAL = regex(r"-?\d{1,15}(?:\.\d{1,15})?")
_BOX = regex(r"=+ Serving Benchmark Result =+\r?\n([^=]+)")
_PRINTED_LINE = regex(r"^([A-Za-z][\w /().]{1,60}):[ \t]+(\S+)", re.MULTILINE)
_PRINTED_LATENCY = regex(r"(mean|median|std|p\d{2}) ([\w ]{1,40}) \(ms\)")
_PRINTED_AS = {
    "backend": "backend",
    "successful requests": "completed",
    "failed requests": "failed",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput (req/s)": "request_throughput",
    "input token throughput (tok/s)": "input_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "total throughput (tok/s)": "total_throughput",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "traffic request rate": "request_rate",
    "request rate configured (rps)": "request_rate",
    "concurrency": "concurrency",
}


@parser
class PrintedServing(Accompanying):
    """What the same load tests print, recognised by the title of the box."""

    format = "printed-serving"
    title = "benchmarks"
    files = "results that the load tests of vLLM and SGLang print"
    suffixes = (".txt", ".log")
    priority = 46

    def recognises(self, source: Source) -> bool:
        return any(b"= Serving Benchmark Result =" in each for each in source.printed)

    def read(self, source: Source, progress: Progress) -> Trace:
        text = decoded(whole_results(source, progress))
        boxes = [*_BOX.finditer(text)]
        ends = [0, *(box.end() for box in boxes)]
        tests = [
            _asked(text[end : box.start()]) | _printed(box[1]) for end, box in zip(ends, boxes, strict=False)
        ]
        tables = [(_title(test), _measured(test), _load(test)) for test in tests[:MAX_TABLES]]
        return load_test_trace(source, (self.format, "bench_serving"), tables, progress)


def _asked(before: str) -> dict[str, Any]:
    """What vLLM says of its requests before it sends them, which older boxes leave out."""
    return {
        key: value for key, value in _printed(before).items() if key in ("request_rate", "max_concurrency")
    }


def _printed(box: str) -> dict[str, Any]:
    """The lines of a box by the keys that the same test saves."""
    test: dict[str, Any] = {}
    for line in _PRINTED_LINE.finditer(box):
        name = line[1].strip().lower()
        latency = _PRINTED_LATENCY.fullmatch(name)
        key = f"{latency[1]}_{latency[2].replace(' ', '_')}_ms" if latency else _PRINTED_AS.get(name)
        if key is not None:
            test[key] = float(line[2]) if _DECIMAL.fullmatch(line[2]) else line[2]
    return test


def _title(test: dict[str, Any]) -> str:
    backend = _text(test.get("backend"))
    rate, at_once = number_of(test.get("request_rate")), number_of(test.get("max_concurrency"))
    most = said_at_once(at_once, "at most ")
    asked = f"{rate:g} request{'s' if rate != 1 else ''}/s" if rate else ""
    tokens = [_per_request(test, key) for key in ("total_input_tokens", "total_output_tokens")]
    lengths = f"{tokens[0]:,.0f} tokens in and {tokens[1]:,.0f} out" if all(tokens) else ""
    failed, completed = number_of(test.get("failed")) or 0.0, number_of(test.get("completed"))
    lost = f"{failed:,.0f} of {failed + (completed or 0.0):,.0f} requests failed" if failed else ""
    return ", ".join(
        each
        for each in (f"Load test{f' of {backend[:40]}' if backend else ''}", lost, asked, most, lengths)
        if each
    )


def said_at_once(at_once: float | None, before: str = "", after: str = "") -> str:
    """ "one request at a time", or "at most 8 requests at once"; empty where it is not stated."""
    if not at_once:
        return ""
    return (
        "one request at a time" if round(at_once) == 1 else f"{before}{at_once:.0f} requests at once{after}"
    )


def _per_request(test: dict[str, Any], key: str) -> float:
    number, requests = number_of(test.get(key)), number_of(test.get("completed"))
    return number / requests if number and requests else 0.0


def _measured(test: dict[str, Any]) -> list[Row]:
    """Rates and counts, and latencies with those figures of each that are stated."""
    rates: list[Row] = [
        (name, unit, number, *(None for _ in FIGURES[1:]))
        for name, unit in _RATES.items()
        if (number := number_of(test.get(name))) is not None
    ]
    return rates + [
        (name, "ms", *(figures.get(each) for each in FIGURES)) for name, figures in _latencies(test).items()
    ]


def _latencies(test: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """By what they are of; none of a test that answered nothing, which states zeros."""
    latencies: dict[str, dict[str, float | None]] = {}
    if number_of(test.get("completed")) == 0:
        return latencies
    for key, value in test.items():
        if found := _LATENCY.fullmatch(key):
            latencies.setdefault(found[2], {})[_FIGURE_OF.get(found[1], found[1])] = number_of(value)
    return latencies


def _load(test: dict[str, Any]) -> LoadTest | None:
    latencies = _latencies(test)
    if latencies.get("itl", {}).get("avg") == 0:  # the whole answer came at once: the test did not stream
        return None
    rate = number_of(test.get("request_rate", 0.0)) or (0.0 if "request_rate" not in test else math.inf)
    completed, duration = (number_of(test.get(name)) or 0.0 for name in ("completed", "duration"))
    for figure in ("avg", "p50"):  # a median and a mean have no difference that is a time
        of = {name: figures.get(figure) or 0.0 for name, figures in latencies.items()}
        load = of_tokens(
            of.get("ttft", 0.0),
            next((of[name] for name in _WHOLE_REQUEST if of.get(name)), 0.0),
            of.get("tpot") or of.get("itl") or 0.0,
            _per_request(test, "total_output_tokens"),
            rate=rate,
            at_once=number_of(test.get("max_concurrency")) or 0.0,
            half_first_ms=latencies.get("ttft", {}).get("p50") or 0.0,
        )
        if load is not None:
            late_s = duration - completed / rate if 0 < rate < math.inf else 0.0
            return replace(load, late_ns=max(late_s, 0.0) * NS_PER_S)
    return None


def of_tokens(
    first_ms: float,
    whole_ms: float,
    token_ms: float,
    tokens: float,
    *,
    rate: float = 0.0,
    at_once: float = 0.0,
    half_first_ms: float = 0.0,
) -> LoadTest | None:
    """What is left of a request after its first token is the time of the others, stated or by their number."""
    others_ms = whole_ms - first_ms if whole_ms else token_ms * max(tokens - 1.0, 0.0)
    if not first_ms or others_ms <= 0:
        return None
    parts = ((RequestPart.FIRST_TOKEN, first_ms * NS_PER_MS), (RequestPart.TOKENS, others_ms * NS_PER_MS))
    return LoadTest(parts, token_ms * NS_PER_MS, rate, at_once, half_first_ms * NS_PER_MS)


def whole_results(source: Source, progress: Progress) -> bytes:
    """The unpacked file."""
    return whole_content(source, progress, "reading results", "Write them again.")


def load_test_trace(
    source: Source,
    format_and_tool: tuple[str, str],
    tests: list[tuple[str, list[Row], LoadTest | None]],
    progress: Progress,
) -> Trace:
    """Tables of tests: title, metrics with their ``FIGURES``, parts of a request; raises where none has a metric."""
    builder = TraceBuilder()
    for title, rows, load in tests:
        if rows:
            shown = rows[: rows_shown(builder.quality, len(rows))]
            builder.tables.append(ResultTable(title, _COLUMNS, tuple(shown), load=load))
    if not builder.tables:
        raise Malformed(source.path, "These results contain no metrics.", "Let the load test finish.")
    builder.came_from(source.name, *format_and_tool)
    return builder.build(progress)


def decoded_json(content: bytes) -> Any:
    """What JSON says; None where it cannot be read."""
    with contextlib.suppress(*UNREADABLE):
        return msgspec.json.decode(content)
    return None


def number_of(value: object) -> float | None:
    """The number; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
