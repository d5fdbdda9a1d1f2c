"""Collapsed stacks: a line for each distinct stack, its frames between semicolons, and how many samples had it."""

from __future__ import annotations

from parsers.files.base import HEAD_BYTES, Parser, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Progress, Trace
from parsers.stacks.collapsed import STACK_LINE, trace_of_stacks

_LOOKED_AT = 50  # lines
_MIN_NESTED = 0.5  # of these lines: others are words and numbers
_MAX_BYTES = 128 << 20


@parser
class CollapsedStacks(Parser):
    """Recognised by its first lines, all of which are stacks with a count, most of several frames."""

    format = "collapsed-stacks"
    title = "CPU profilers"
    files = "collapsed stacks (py-spy record -f raw, python -m profiling.sampling --collapsed)"
    suffixes = (".txt", ".folded", ".collapsed", ".raw")
    priority = 70
    version = 5

    def recognises(self, source: Source) -> bool:
        lines = source.head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
        if len(source.head) == HEAD_BYTES or len(lines) == _LOOKED_AT:
            lines = lines[:-1]
        lines = [line for line in lines if line.strip() and not line.strip().isdigit()]  # an empty stack
        nested = sum(b";" in line for line in lines)
        return bool(lines) and nested >= _MIN_NESTED * len(lines) and all(map(STACK_LINE.fullmatch, lines))

    def read(self, source: Source, progress: Progress) -> Trace:
        with open_bytes(source) as packed:
            stream = LimitedStream(packed, source, progress.part(0.0, 0.3), "reading samples")
            data = stream.whole("Record fewer samples.", _MAX_BYTES)
        return trace_of_stacks(source, (self.format, "collapsed stacks"), data, progress.part(0.3, 1.0))
