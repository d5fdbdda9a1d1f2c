"""Results of genai-perf (profile_export_genai_perf.json): latencies and throughput of a language model's server."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec

from parsers.base import Source, parser
from parsers.model import Malformed, Progress, ResultColumn, ResultTable, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.model.results import MOST_ROWS, Cell
from parsers.source import open_bytes
from parsers.unpacking_limit import LimitedStream

_START = re.compile(rb"\s*\{")
_METRIC = re.compile(
    rb'"(time_to_first_token|inter_token_latency|output_token_throughput|request_throughput)"\s*:\s*\{[^{}]*"avg"'
)
_FIGURES = ("avg", "p50", "p90", "p95", "p99", "min", "max", "std")
_MOST_BYTES = 16 << 20


@parser
class GenaiPerf:
    """Recognised by its metrics."""

    format: ClassVar[str] = "genai-perf"
    title: ClassVar[str] = "benchmarks"
    files: ClassVar[str] = "JSON of genai-perf"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    priority: ClassVar[int] = 46
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None and _METRIC.search(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        with open_bytes(source) as stream:
            content = LimitedStream(stream, source, progress, "reading results").read(_MOST_BYTES)
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
            raise Malformed(source.path, "These results hold no metric.", "Let the load test end.")
        builder = TraceBuilder()
        columns = tuple(ResultColumn(name) for name in ("metric", "unit", *_FIGURES))
        builder.tables.append(ResultTable("Load test of genai-perf", columns, tuple(rows[:MOST_ROWS])))
        builder.quality.read(len(rows))
        builder.quality.keep(len(rows))
        builder.inputs.append(TraceInput(source.shown or str(source.path), self.format, "genai-perf"))
        builder.sources.append(None)
        return builder.build(progress)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
