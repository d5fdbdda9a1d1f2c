"""Times of TensorRT's layers, as ``trtexec --exportProfile`` writes them: a list of objects, the first a count."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from parsers.files.base import Source, parser
from parsers.files.decoders import from_json
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Malformed, Progress, ResultColumn, ResultTable, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.model.late.regex import regex
from parsers.model.results import rows_shown

_START = regex(rb'\s*\[\s*\{\s*"count"\s*:\s*\d+\s*\}\s*[,\]]')
_COLUMNS = (
    ResultColumn("layer"),
    ResultColumn("time", "ms"),
    ResultColumn("average", "ms"),
    ResultColumn("median", "ms"),
    ResultColumn("share", "%"),
)


class _Layer(msgspec.Struct, rename="camel"):
    """One layer; the count of runs has none of these, and older versions no median."""

    name: str = ""
    time_ms: float | None = None
    average_ms: float | None = None
    median_ms: float | None = None
    percentage: float | None = None


@parser
class TrtexecProfile:
    """Recognised by the count of runs that it begins with."""

    format: ClassVar[str] = "trtexec-profile"
    accompanies: ClassVar[bool] = True
    title: ClassVar[str] = "benchmarks"
    files: ClassVar[str] = "JSON of trtexec --exportProfile"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    priority: ClassVar[int] = 46
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        with open_bytes(source) as stream:
            content = LimitedStream(stream, source, progress, "reading results").whole("Write them again.")
        try:
            stated = from_json(content, list[_Layer])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Malformed(
                source.path, f"These layer times cannot be read ({error}).", "Write them again."
            ) from error
        layers = [each for each in stated if each.time_ms is not None]
        if not layers:
            raise Malformed(source.path, "This trtexec profile contains no layers.", "Let trtexec finish.")
        builder = TraceBuilder()
        slowest_first = sorted(layers, key=lambda each: -(each.time_ms or 0.0))
        shown = slowest_first[: rows_shown(builder.quality, len(layers))]
        rows = [(each.name, each.time_ms, each.average_ms, each.median_ms, each.percentage) for each in shown]
        builder.tables.append(ResultTable("Layers of TensorRT", _COLUMNS, tuple(rows)))
        builder.inputs.append(TraceInput(source.shown or str(source.path), self.format, "trtexec"))
        builder.sources.append(None)
        return builder.build(progress)
