"""What llama.cpp's llama-bench writes as JSON: tokens a second of a prompt, and of generating."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.files.base import Accompanying, Source, parser
from parsers.formats.results.load_tests import decoded_json, number_of, whole_results
from parsers.model import Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.results import Cell, ResultTable, rows_shown, titled
from parsers.model.units import three_digits

_START = regex(rb"\s*(?:\[\s*)?\{")
_MAX_NAME = 60
_COLUMNS = titled(
    "test",
    "rate (tokens/s)",
    "deviation (tokens/s)",
    "model",
    "size (B)",
    "computed on",
    "layers on the GPU",
    "threads",
)


@parser
class LlamaBench(Accompanying):
    """Results of ``llama-bench -o json`` and ``-o jsonl``, an object for each test, recognised by their keys."""

    format = "llama-bench"
    title = "benchmarks"
    files = "JSON of llama-bench"
    suffixes = (".json", ".jsonl")
    priority = 46

    def recognises(self, source: Source) -> bool:
        keys = (b'"build_commit"', b'"model_type"', b'"n_gen"')
        return _START.match(source.head) is not None and all(key in source.head for key in keys)

    def read(self, source: Source, progress: Progress) -> Trace:
        content = whole_results(source, progress)
        stated = decoded_json(content)
        if stated is None:
            stated = [decoded_json(line) for line in content.splitlines() if line.strip()]
        tests = [
            each
            for each in (stated if isinstance(stated, list) else [stated])
            if isinstance(each, dict) and number_of(each.get("avg_ts"))
        ]
        if not tests:
            raise Malformed(source.path, "These results contain no rates.", "Let llama-bench finish.")
        builder = TraceBuilder()
        shown = tests[: rows_shown(builder.quality, len(tests))]
        builder.tables.append(ResultTable(_title(tests), _COLUMNS, tuple(map(_row, shown))))
        builder.came_from(source.name, self.format, "llama-bench")
        return builder.build(progress)


def _row(test: Mapping[str, Any]) -> tuple[Cell, ...]:
    device = _text(test, "gpu_info") or _text(test, "cpu_info")
    figures = ("model_size", "n_gpu_layers", "n_threads")
    size, layers, threads = (number_of(test.get(name)) for name in figures)
    rate, deviation = (number_of(test.get(name)) for name in ("avg_ts", "stddev_ts"))
    return _test(test), rate, deviation, _text(test, "model_type"), size, device, layers, threads


def _test(test: Mapping[str, Any]) -> str:
    """What llama-bench calls it: pp512 computes a prompt, tg128 generates, behind @ what was there before."""
    prompt, generated, before = (
        int(number_of(test.get(name)) or 0) for name in ("n_prompt", "n_gen", "n_depth")
    )
    named = [f"pp{prompt}"] if prompt else []
    named += [f"tg{generated}"] if generated else []
    return "+".join(named) + (f" @ d{before}" if before else "")


def _title(tests: list[dict[str, Any]]) -> str:
    """The best of each sort, as several settings may have been tried."""
    models = {_text(each, "model_type") or "" for each in tests}
    told = []
    for sort, other, words in (("n_gen", "n_prompt", "generated"), ("n_prompt", "n_gen", "of a prompt")):
        of_sort = [each for each in tests if number_of(each.get(sort)) and not number_of(each.get(other))]
        if of_sort:
            best = max(of_sort, key=lambda each: each["avg_ts"])
            most = "at most " if len(of_sort) > 1 else ""
            told.append(f"{most}{three_digits(best['avg_ts'])} tokens a second {words} ({_test(best)})")
    named = f"llama-bench of {next(iter(models))[:_MAX_NAME]}" if len(models) == 1 else "llama-bench"
    return f"{named}: {', '.join(told)}" if told else named


def _text(test: Mapping[str, Any], key: str) -> str | None:
    return value if isinstance(value := test.get(key), str) and value else None
