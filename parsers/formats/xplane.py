"""Profiles of XProf in binary form (.xplane.pb): JAX, TensorFlow and PyTorch/XLA, on GPUs and TPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from parsers.files.base import Parser, Source, parser
from parsers.files.source import READ_ERRORS, open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import ArgumentSource, Effect, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex

_SPACE = regex(rb"\x0a.{1,6}?(?:\x08.{1,10}?)?\x12.{1,2}(?:/(?:host|device):|Task Environment)", re.DOTALL)
_BYTES_AN_EVENT_BYTE = 12  # memory for each byte of the file: columns of events and of their statistics


@parser
class XPlane(Parser):
    """Recognised by its first plane, whose name says which part of the machine it is of."""

    format = "xplane"
    title = "XProf (JAX, TensorFlow)"
    files = "planes (.xplane.pb), and the JSON written beside them"
    suffixes = (".xplane.pb",)
    priority = 35
    version = 4

    def recognises(self, source: Source) -> bool:
        return _SPACE.match(source.head) is not None

    def argument_source(self, source: Source) -> ArgumentSource:
        return XPlaneArguments(source.path, source.compression)

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.files.unpacking_limit import require_memory
        from parsers.xprof.planes import planes_of
        from parsers.xprof.timeline import PlaneTimeline

        builder = TraceBuilder()
        content, damage = _content(source, progress.part(0.0, 0.1))
        require_memory(source.path, len(content), _BYTES_AN_EVENT_BYTE, "Record fewer steps.")
        timeline = PlaneTimeline(builder)
        cut = bool(damage)
        for plane, whole in planes_of(content, progress.part(0.1, 0.8)):
            timeline.add(plane)
            cut = cut or not whole
        timeline.finish()
        if cut:
            builder.quality.note(
                "cut", Effect.NOTED, "the file is cut off or damaged; what comes before is shown", damage
            )
        if not builder.lanes:
            raise Malformed(
                source.path,
                "This profile contains no events of a device or a thread.",
                "Record again, with the profiler running while the program works.",
            )
        builder.came_from(
            source.name, self.format, "XProf", arguments=XPlaneArguments(source.path, source.compression)
        )
        return builder.build(progress.part(0.8, 1.0))


def _content(source: Source, progress: Progress) -> tuple[bytes, str]:
    """All bytes, and why they end early if they do."""
    with open_bytes(source) as stream:
        limited = LimitedStream(stream, source, progress, "reading the profile")
        return b"".join(iter(limited.read, b"")), limited.damage


@dataclass(slots=True)
class XPlaneArguments:
    """Finds an event's message again by its place in the file."""

    path: Path
    compression: str
    _content: bytes = field(default=b"", repr=False)

    def arguments(self, source_row: int) -> Mapping[str, Any]:
        """Every statistic of the event; empty when the file is gone."""
        from parsers.xprof.planes import arguments_at

        try:
            if not self._content:
                self._content, _ = _content(Source(self.path, b"", self.compression), Progress())
        except (*READ_ERRORS, Malformed):
            return {}
        return arguments_at(self._content, source_row)
