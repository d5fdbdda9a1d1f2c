"""Load tests of TensorRT-LLM: reports of trtllm-bench, and what it prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from parsers.files.base import Accompanying, Source, parser
from parsers.files.texts import decoded
from parsers.formats.results.load_tests import (
    FIGURES,
    Row,
    decoded_json,
    load_test_trace,
    number_of,
    of_tokens,
    said_at_once,
    whole_results,
)
from parsers.model import Progress, Trace
from parsers.model.builder import MAX_TABLES
from parsers.model.late import regex
from parsers.model.results import LoadTest

_OBJECT = regex(rb"\s*\{")
_PERFORMANCE = regex(rb'"performance"\s*:\s*\{')
_OF_TENSORRT_LLM = regex(rb'"request_info"\s*:\s*\{[^{}]*"num_requests"')
_GROUPS = ("performance", "streaming_metrics")
_PERCENTILES = "_percentiles"
_UNITS = {"_ms": "ms", "_tok_s": "tokens/s", "_req_s": "requests/s", "_tps": "tokens/s"}
_FIGURES_OF_TENSORRT_LLM = {"average": "avg", "minimum": "min", "maximum": "max"}


@parser
class TrtllmBench(Accompanying):
    """Reports of trtllm-bench (--report_json), recognised by their sections."""

    format = "trtllm-bench"
    title = "benchmarks"
    files = "JSON reports of trtllm-bench"
    suffixes = (".json",)
    priority = 46
    version = 3

    def recognises(self, source: Source) -> bool:
        head = source.head
        is_json = _OBJECT.match(head) is not None
        return is_json and all(each.search(head) is not None for each in (_PERFORMANCE, _OF_TENSORRT_LLM))

    def read(self, source: Source, progress: Progress) -> Trace:
        report = decoded_json(whole_results(source, progress))
        groups = [
            each
            for name in _GROUPS
            if isinstance(report, dict) and isinstance(each := report.get(name), dict)
        ]
        stated = {name: value for group in groups for name, value in group.items()}
        requests = report.get("request_info") if isinstance(report, dict) else None
        at_once = (
            number_of(requests.get("avg_num_concurrent_requests")) if isinstance(requests, dict) else None
        )
        test = _of_tensorrt_llm(stated, at_once)
        return load_test_trace(source, (self.format, "trtllm-bench"), [test], progress)


_OVERVIEW = regex(r"= PERFORMANCE OVERVIEW\s*\n=+\s*\n([^=]+)")
_PRINTED_FIGURE = regex(
    r"^([A-Z][\w \[\]/-]{1,60})(?: \([\w/]{2,12}\))?:\s{0,60}(\d{1,15}(?:\.\d{1,9})?)\s*$", re.MULTILINE
)
_PRINTED_SPREAD = regex(
    r"^\[(\w{1,12})\] (P\d\d|MINIMUM|MAXIMUM|AVERAGE) {0,8}: (\d{1,15}(?:\.\d{1,9})?)\s*$", re.MULTILINE
)
_REPORTED_AS = {
    "Request Throughput": "request_throughput_req_s",
    "Token Throughput": "system_output_throughput_tok_s",
    "Total Output Throughput": "system_output_throughput_tok_s",
    "Total Token Throughput": "system_total_throughput_tok_s",
    "Total Latency": "total_latency_ms",
    "Average request latency": "avg_request_latency_ms",
    "Average time-to-first-token [TTFT]": "avg_ttft_ms",
    "Average time-per-output-token [TPOT]": "avg_tpot_ms",
    "Per GPU Output Throughput": "output_throughput_per_gpu_tok_s",
}
_SPREAD_OF = {"Latency": "request_latency", "TTFT": "ttft", "TPOT": "tpot"}


@parser
class PrintedTrtllmBench(Accompanying):
    """What trtllm-bench prints, recognised by the title of its results."""

    format = "printed-trtllm-bench"
    title = "benchmarks"
    files = "results that trtllm-bench prints"
    suffixes = (".txt", ".log", ".out")
    priority = 46

    def recognises(self, source: Source) -> bool:
        return any(b"= PERFORMANCE OVERVIEW" in each for each in source.printed)

    def read(self, source: Source, progress: Progress) -> Trace:
        text = decoded(whole_results(source, progress))
        tests, end = [], 0
        for overview in _OVERVIEW.finditer(text):
            about = dict(_PRINTED_FIGURE.findall(text[end : overview.start()]))
            tests.append(
                _of_tensorrt_llm(_overview(overview[1]), _float(about.get("Number of concurrent requests")))
            )
            end = overview.end()
        return load_test_trace(source, (self.format, "trtllm-bench"), tests[:MAX_TABLES], progress)


def _overview(box: str) -> dict[str, Any]:
    """The lines of the results by the keys of the report of the same run."""
    stated: dict[str, Any] = {
        key: float(value) for name, value in _PRINTED_FIGURE.findall(box) if (key := _REPORTED_AS.get(name))
    }
    for of, figure, value in _PRINTED_SPREAD.findall(box):
        if of in _SPREAD_OF:
            stated.setdefault(f"{_SPREAD_OF[of]}{_PERCENTILES}_ms", {})[figure.lower()] = float(value)
    return stated


def _of_tensorrt_llm(stated: dict[str, Any], at_once: float | None) -> tuple[str, list[Row], LoadTest | None]:
    """Title, metrics and parts of a mean request."""
    tokens = number_of(stated.get("system_output_throughput_tok_s"))
    rate = f"{tokens:,.0f} tokens a second" if tokens else ""
    title = ", ".join(
        filter(None, ("Load test of TensorRT-LLM", rate, said_at_once(at_once, after=" on average")))
    )
    first = stated.get(f"ttft{_PERCENTILES}")
    load = of_tokens(
        number_of(stated.get("avg_ttft_ms")) or 0.0,
        number_of(stated.get("avg_request_latency_ms")) or 0.0,
        number_of(stated.get("avg_tpot_ms")) or 0.0,
        0.0,
        at_once=at_once or 0.0,
        half_first_ms=(number_of(first.get("p50")) or 0.0) if isinstance(first, dict) else 0.0,
    )
    return title, _reported(stated), load


def _reported(stated: Mapping[str, Any]) -> list[Row]:
    """Single figures, and percentiles of one thing as one row; of what has both, the percentiles."""
    rows: list[Row] = []
    spread: set[str] = set()
    units = dict(_unit_of(key.removeprefix("avg_")) for key in stated)  # percentiles may state none
    for key, value in stated.items():
        if isinstance(value, dict):
            name, unit = _unit_of(key.replace(_PERCENTILES, ""))
            unit = unit or units.get(name, "")
            figures = {_FIGURES_OF_TENSORRT_LLM.get(each, each): number_of(value[each]) for each in value}
            rows.append((name, unit, *(figures.get(each) for each in FIGURES)))
            spread.add(name)
    for key, value in stated.items():
        name, unit = _unit_of(key.removeprefix("avg_"))
        if (number := number_of(value)) is not None and name not in spread:
            rows.append((name, unit, number, *(None for _ in FIGURES[1:])))
    return rows


def _unit_of(key: str) -> tuple[str, str]:
    ending = next((each for each in _UNITS if key.endswith(each)), "")
    return key.removesuffix(ending), _UNITS.get(ending, "")


def _float(text: str | None) -> float | None:
    return float(text) if text else None
