"""JSON of ROCm's rocprofv3: dispatches, copies, HIP, HSA and RCCL calls and ranges of each process."""

from __future__ import annotations

from parsers.files.base import Parser, Source, parser
from parsers.files.signatures import USUAL_GROWTH
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Effect, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late.regex import regex

_START = regex(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:\s*\[')
_BYTES_A_RECORD, _BYTES_AN_EVENT = 350, 350


@parser
class Rocprofv3Json(Parser):
    """Recognised by its outermost key."""

    format = "rocprofv3-json"
    title = "ROCm"
    files = "JSON of rocprofv3"
    suffixes = (".json",)
    priority = 45

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.files.unpacking_limit import require_memory
        from parsers.json_lists import JsonLists
        from parsers.rocm.sdk_records import DEEPEST, TOOL_DEPTH, WANTED, ProcessRecords
        from parsers.rocm.timeline import Timeline

        size = source.path.stat().st_size * (USUAL_GROWTH if source.compression else 1)
        hint = "Record a shorter part of the program."
        require_memory(source.path, size // _BYTES_A_RECORD, _BYTES_AN_EVENT, hint)
        builder = TraceBuilder()
        timeline = Timeline(builder)
        processes: dict[int, ProcessRecords] = {}
        with open_bytes(source) as stream:
            limited = LimitedStream(stream, source, progress.part(0.0, 0.8), "reading records")
            lists = JsonLists(limited, WANTED, DEEPEST, TOOL_DEPTH)
            for piece in lists.pieces():
                processes.setdefault(piece.owner, ProcessRecords(timeline)).add(piece)
        for each in processes.values():
            each.finish()
        timeline.finish()
        if lists.damage:
            builder.quality.note(
                "cut",
                Effect.NOTED,
                "the file is cut off or damaged; what comes before is shown",
                lists.damage,
            )
        builder.came_from(source.name, self.format, "rocprofv3")
        return builder.build(progress.part(0.8, 1.0))
