"""Traces of the parts of a kernel, as Triton's profiler Proton writes them (``backend="instrumentation"``)."""

from __future__ import annotations

from typing import ClassVar

from parsers.files.base import Source, parser
from parsers.model import Progress, Trace
from parsers.model.late.regex import regex
from parsers.proton.reading import begins_like_proton, trace_of

_TELLING = regex(rb'"pid"\s*:\s*"[^"]{0,8192} Core\d{1,6} CTA\d{1,10}"')


@parser
class ProtonInside:
    """Recognised by its first keys and by what it calls blocks."""

    format: ClassVar[str] = "proton-inside"
    accompanies: ClassVar[bool] = True
    title: ClassVar[str] = "Triton Proton"
    files: ClassVar[str] = "the parts of instrumented kernels"
    suffixes: ClassVar[tuple[str, ...]] = (".chrome_trace", ".json")
    priority: ClassVar[int] = 60
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        return begins_like_proton(source.head) and _TELLING.search(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.proton.inside_kernels import add_parts

        return trace_of(source, self.format, add_parts, progress)
