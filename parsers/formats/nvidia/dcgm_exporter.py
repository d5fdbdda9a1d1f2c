"""Metrics of dcgm-exporter as Prometheus scrapes them: one or many pages of text, as counters."""

from __future__ import annotations

import io
import re

from parsers.files.base import Accompanying, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Effect, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.units import NS_PER_MS, NS_PER_S
from parsers.smi.exporters import dcgm_field
from parsers.smi.readings import Readings

_LINE = regex(r"(DCGM_FI_\w{1,80})\{([^}]{0,4000})\} ([-+.\w]{1,30})(?: (\d{1,16}))?\s*$")
_GPU = regex(r'(?:^|,)gpu="(\d{1,5})"')
_MARK = regex(rb"^(?:# (?:HELP|TYPE) )?DCGM_FI_\w+", re.MULTILINE)


@parser
class DcgmExporter(Accompanying):
    """Recognised by the names of its fields at the start of a line."""

    format = "dcgm-exporter"
    title = "dcgm-exporter"
    files = "metrics pages, as counters"
    suffixes = (".prom", ".txt")
    priority = 71

    def recognises(self, source: Source) -> bool:
        return b"DCGM_FI_" in source.head and _MARK.search(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        readings, scrapes = Readings(), dict[tuple[int, str], int]()
        timed = False
        with open_bytes(source) as stream:
            limited = LimitedStream(stream, source, progress.part(0.0, 0.9), "reading metrics")
            rest = ""
            for part in iter(limited.read, b""):
                *lines, rest = (rest + part.decode("utf-8", "replace")).split("\n")
                for line in io.StringIO("\n".join([*lines, ""])):
                    timed = _take(line, readings, scrapes) or timed
            timed = _take(rest, readings, scrapes) or timed
        counters = readings.counters()
        if not counters:
            raise Malformed(source.path, "These metrics contain no GPU readings.", "Scrape them again.")
        builder = TraceBuilder(epoch_ns=0 if timed else None)
        readings.account(builder.quality, "Lines that are not metrics were left out.")
        if not timed:
            builder.quality.note(
                "no date", Effect.NOTED, "The metrics contain no times, so pages are assumed to be 1 s apart."
            )
        builder.counters += counters
        builder.came_from(source.name, self.format, "dcgm-exporter")
        return builder.build(progress.part(0.9, 1.0))


def _take(line: str, readings: Readings, scrapes: dict[tuple[int, str], int]) -> bool:
    """Keep one line; whether it states its time."""
    if not line.startswith("DCGM_FI_"):
        return False
    match = _LINE.match(line)
    gpu = _GPU.search(match[2]) if match else None
    if match is None or gpu is None:
        readings.unusable(line, readings.lines + readings.unreadable + 1)
        return False
    key = int(gpu[1]), match[1]
    count = scrapes.get(key, 0)
    scrapes[key] = count + 1
    moment = int(match[4]) * NS_PER_MS if match[4] else count * NS_PER_S
    readings.lines += 1
    readings.add(key[0], match[1], dcgm_field(match[1]), moment, match[3])
    return match[4] is not None
