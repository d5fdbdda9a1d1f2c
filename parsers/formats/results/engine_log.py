"""Logs of vLLM and SGLang: what the engine says of its tokens, requests and KV cache, and of its start."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from parsers.files.base import Source, parser
from parsers.formats.results.engine_start import failures, starts, tells_of_start
from parsers.model import ResultTable
from parsers.model.arrays import median_of
from parsers.model.late import regex
from parsers.model.results import titled
from parsers.model.units import percent, three_digits
from parsers.nccl_messages import nccl_tables
from parsers.printed_profile import PrintedProfile

MIN_LINES = 3  # with requests that run
NOTEWORTHY_SILENCE = 0.1  # of the lines: then generating waits for prompts
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_COLOUR = regex(r"\x1b\[[\d;]{0,12}m")  # of terminals
_ENGINES = {
    "vLLM": regex(
        rf"Avg prompt throughput: (?P<prompts>{_NUMBER}) tokens/s, Avg generation throughput: (?P<generated>{_NUMBER}) "
        r"tokens/s, Running: (?P<running>\d{1,6}) reqs, (?:Swapped: \d{1,6} reqs, )?"
        rf"(?:Waiting|Pending): (?P<waiting>\d{{1,6}}) reqs, GPU KV cache usage: (?P<cache>{_NUMBER})%"
    ),
    "SGLang": regex(
        r"Decode batch[^\n]{0,40}?#running-req: (?P<running>\d{1,6}), [^\n]{0,60}?token usage: "
        rf"(?P<part>{_NUMBER}), [^\n]{{0,160}}?gen throughput \(token/s\): (?P<generated>{_NUMBER}), "
        r"#queue-req: (?P<waiting>\d{1,6})"
    ),
}
_RANKS = {  # of data parallelism: each says what itself does
    "vLLM": regex(r"Engine (\d{1,4}): Avg prompt throughput"),
    "SGLang": regex(r"\bDP(\d{1,4})\b[^\n\]]{0,40}\] Decode batch"),
}
_COLUMNS = titled(
    "generated (tokens/s)", "prompts (tokens/s)", "running (requests)", "waiting (requests)", "KV cache (%)"
)
_Row = tuple[float, float | None, float, float, float]


@parser
class EngineLog(PrintedProfile):
    """Recognised by a few such lines while requests run, or by what vLLM says of its start."""

    format = "engine-log"
    title = "benchmarks"
    files = "logs of vLLM and SGLang"
    suffixes = (".log", ".txt", ".out")
    priority = 64
    version = 4
    producer = "a serving engine"

    def recognises(self, source: Source) -> bool:
        texts = [each.decode("utf-8", "replace") for each in source.printed]
        return any(
            len(_rows(line, text)) >= MIN_LINES for text in texts for line in _ENGINES.values()
        ) or any(map(tells_of_start, texts))

    def tables(self, text: str) -> Iterator[ResultTable]:
        text = _COLOUR.sub("", text)
        yield from failures(text)
        for name, line in _ENGINES.items():
            rows = _rows(line, text)
            if any(row[0] for row in rows):
                ranks = len(set(_RANKS[name].findall(text)))
                yield ResultTable(_title(name, rows, ranks), _COLUMNS, tuple(rows))
        yield from starts(text)
        yield from nccl_tables(text)


def _rows(line: re.Pattern[str], text: str) -> list[_Row]:
    """What each line says while requests run; the engine goes on to say it when none do."""
    found = (each.groupdict() for each in line.finditer(text))
    return [
        (
            float(each["generated"]),
            float(each["prompts"]) if each.get("prompts") else None,
            float(each["running"]),
            float(each["waiting"]),
            float(each["cache"]) if each.get("cache") else 100.0 * float(each["part"]),
        )
        for each in found
        if int(each["running"])
    ]


def _title(name: str, rows: list[_Row], ranks: int) -> str:
    running, waiting, cache = (
        max(each) for each in zip(*((row[2], row[3], row[4]) for row in rows), strict=True)
    )
    waited = sum(row[3] > 0 for row in rows) / len(rows)
    queue = f"up to {waiting:,.0f} wait, in {percent(waited)} of the lines" if waiting else "none waits"
    at_once = f"at most {running:,.0f} request{'s' if running != 1 else ''} at once"
    each = f", for each of {ranks} data-parallel ranks" if ranks > 1 else ""
    return f"Log of {name}{each}: {_rates(rows)}, {at_once}, {queue}, KV cache at most {percent(cache / 100)} full"


def _rates(rows: list[_Row]) -> str:
    """How many tokens a second were generated, and read from prompts where the engine says so.

    Then its lines are about equal times, in which it did both: their mean is what it did in all. Otherwise they are
    about equal numbers of tokens.
    """
    generated = np.array([row[0] for row in rows])
    read = [row[1] for row in rows if row[1] is not None]
    if not read:
        usual = three_digits(float(median_of(generated)))
        return f"{usual} tokens a second (median of {len(rows):,} lines)"
    silent = float(np.mean(generated == 0))
    return (
        f"{three_digits(float(generated.mean()))} tokens a second generated and {three_digits(float(np.mean(read)))} "
        f"of prompts read (means of {len(rows):,} lines)"
        + (f", none generated in {percent(silent)} of the lines" if silent >= NOTEWORTHY_SILENCE else "")
    )
