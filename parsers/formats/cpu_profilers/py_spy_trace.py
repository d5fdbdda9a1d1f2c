"""Py-spy's Chrome traces: where calls of each thread begin and end, with their files beside their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from parsers.files.base import Parser, Source, parser
from parsers.model import Lane, LaneKind, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late.regex import regex
from parsers.model.units import NS_PER_US
from parsers.stacks.json_profile import decoded_profile
from parsers.stacks.timeline import add_calls, allow_threads, frame_name, set_aside

_START = regex(rb'\s*\[\s*\{[^[\]]{0,4096}?"cat"\s*:\s*"py-spy"')
_BYTES_OF_MARK = 250  # of memory
_LATEST_US = float(1 << 50)
_HINT = "Write it again: py-spy record."
UNUSABLE = "starts and ends of calls that do not match"


_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class _Place(msgspec.Struct):
    filename: str = ""
    line: int = 0


class _Mark(msgspec.Struct):
    name: str
    ph: str
    ts: float
    pid: _Number = 0
    tid: _Number = 0
    args: _Place | None = None


@parser
class PySpyTrace(Parser):
    """Recognised by the category of its first event."""

    format = "py-spy-trace"
    title = "CPU profilers"
    files = "Chrome traces of py-spy"
    suffixes = (".json",)
    priority = 60  # before other Chrome traces

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        marks = decoded_profile(
            source, list[_Mark], b"{", _BYTES_OF_MARK, "These samples", _HINT, progress.part(0.0, 0.3)
        )
        builder = TraceBuilder()
        builder.came_from(source.name, self.format, "py-spy")
        threads: dict[tuple[int, int], list[_Mark]] = {}
        for each in marks:
            threads.setdefault((each.pid, each.tid), []).append(each)
        allow_threads(len(threads))
        wrong = 0
        for number, ((process, thread), mine) in enumerate(threads.items()):
            progress.step(0.3 + 0.5 * number / len(threads), "reading samples")
            usable = [each for each in mine if each.ph in ("B", "E") and abs(each.ts) < _LATEST_US]
            name = next((each.name for each in usable if each.name.startswith("thread ")), f"thread {thread}")
            lane = Lane(LaneKind.SAMPLED_STACKS, name, process=process, thread=thread)
            wrong += len(mine) - len(usable) + add_calls(builder, lane, _calls(builder, usable))
        set_aside(builder, UNUSABLE, wrong)
        return builder.build(progress.part(0.8, 1.0))


def _calls(builder: TraceBuilder, marks: list[_Mark]) -> Iterator[tuple[bool, int, int]]:
    for each in marks:
        place = each.args or _Place()
        name = frame_name(each.name, place.filename, max(place.line, 0))
        yield each.ph == "B", builder.string(name), round(each.ts * NS_PER_US)
