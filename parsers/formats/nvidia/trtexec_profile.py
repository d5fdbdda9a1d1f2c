"""Times of TensorRT's layers, as ``trtexec --exportProfile`` writes them: a list of objects, the first a count."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parsers.files.base import Accompanying, Source, parser
from parsers.files.decoders import from_json_of
from parsers.model import Progress, ResultTable, Trace
from parsers.model.late import regex
from parsers.model.results import TimeOf, Totals, titled
from parsers.printed_profile import read_profile

_START = regex(rb'\s*\[\s*\{\s*"count"\s*:\s*\d+\s*\}\s*[,\]]')
_COLUMNS = titled("layer", "time (ms)", "average (ms)", "median (ms)", "share (%)")


class _Layer(msgspec.Struct, rename="camel"):
    """One layer; the count of runs has none of these, and older versions no median."""

    name: str = ""
    time_ms: float | None = None
    average_ms: float | None = None
    median_ms: float | None = None
    percentage: float | None = None


@parser
class TrtexecProfile(Accompanying):
    """Recognised by the count of runs that it begins with."""

    format = "trtexec-profile"
    title = "benchmarks"
    files = "JSON of trtexec --exportProfile"
    suffixes = (".json",)
    priority = 46
    version = 2

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        def tables(content: bytes) -> Iterator[ResultTable]:
            layers = from_json_of(source, content, list[_Layer], "These layer times", "Write them again.")
            yield _table(layers)

        return read_profile(source, progress, (self.format, "trtexec"), tables)


def _table(stated: list[_Layer]) -> ResultTable:
    """The layers, the slowest first."""
    layers = sorted(
        (each for each in stated if each.time_ms is not None), key=lambda each: -(each.time_ms or 0.0)
    )
    rows = tuple(
        (each.name, each.time_ms, each.average_ms, each.median_ms, each.percentage) for each in layers
    )
    totals = Totals(TimeOf.GPU, 0, 1, 4)
    return ResultTable("Layers of TensorRT", _COLUMNS, rows, totals=(totals,))
