"""Traces of Proton, Triton's profiler (``data="trace"``): kernels on their streams, under the scopes around them."""

from __future__ import annotations

from parsers.files.base import Parser, Source, parser
from parsers.model import Progress, Trace
from parsers.model.late.regex import regex
from parsers.proton.reading import begins_like_proton, trace_of

_TELLING = regex(rb'"call_stack"\s*:\s*\[\s*"ROOT"')


@parser
class ProtonTrace(Parser):
    """Recognised by its first keys and the stacks of its events."""

    format = "proton-trace"
    title = "Triton Proton"
    files = 'traces (data="trace")'
    suffixes = (".chrome_trace", ".json")
    priority = 61  # before other Chrome traces, after those of single kernels

    def recognises(self, source: Source) -> bool:
        return begins_like_proton(source.head) and _TELLING.search(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.proton.kernel_timeline import add_kernels

        return trace_of(source, self.format, add_kernels, progress)
