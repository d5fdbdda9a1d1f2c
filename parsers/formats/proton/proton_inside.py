"""Traces of the parts of a kernel, as Triton's profiler Proton writes them (``backend="instrumentation"``)."""

from __future__ import annotations

from parsers.files.base import Parser, Source, parser
from parsers.model import Progress, Trace
from parsers.model.late.regex import regex
from parsers.proton.reading import begins_like_proton, trace_of

_TELLING = regex(rb'"pid"\s*:\s*"[^"]{0,8192} Core\d{1,6} CTA\d{1,10}"')


@parser
class ProtonInside(Parser):
    """Recognised by its first keys and by what it calls blocks."""

    format = "proton-inside"
    accompanies = True
    title = "Triton Proton"
    files = "the parts of instrumented kernels"
    suffixes = (".chrome_trace", ".json")
    priority = 60

    def recognises(self, source: Source) -> bool:
        return begins_like_proton(source.head) and _TELLING.search(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.proton.inside_kernels import add_parts

        return trace_of(source, self.format, add_parts, progress)
