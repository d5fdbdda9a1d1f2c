"""Chrome traces of the parts of a kernel: a process for each multiprocessor, a thread for each block or warp.

Those who instrument their kernels write them themselves, and what a time counts differs: nanoseconds of the global
timer, clock cycles, or either divided by 1,000. The format asks for microseconds.
"""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec
import numpy as np

from parsers.files.base import Accompanying, Source, parser
from parsers.files.decoders import UNREADABLE
from parsers.files.unpacking_limit import require_memory, whole_content
from parsers.json_records import Records
from parsers.model import Effect, EventKind, Lane, LaneKind, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.names.kernels import block_name
from parsers.model.nesting import lowest_free_rows
from parsers.model.units import NS_PER_US

_UNIT = r"(?:SM|sm)[ _#:=-]{0,3}(?P<unit>\d{1,4})\b"
_OF_BLOCK = r"(?:block|cta|tb|blk)[ _#:=-]{0,3}(?P<block>\d{1,9})"
_OF_WARP = r"(?:warp ?group|warp|wg|wave|group)[ _#:=-]{0,3}(?P<warp>\d{1,4})"
_PROCESS = regex(rf"(?:.{{0,60}}[^\w]|){_UNIT}")
_BLOCK, _WARP = regex(rf"(?i:{_OF_BLOCK})"), regex(rf"(?i:{_OF_WARP})")
_HEAD = regex(rb'\s*(?:\[|\{.{0,2000}?"traceEvents"\s*:\s*\[)\s*\{', re.DOTALL)
_SAYS_UNIT = regex(rf'"(?:pid|name)"\s*:\s*"{_UNIT}"'.encode())
_SAYS_PART = regex(rf'"(?:tid|name)"\s*:\s*"[^"]{{0,60}}?(?i:{_OF_BLOCK}|{_OF_WARP})[^"]{{0,60}}"'.encode())
_MAX_BYTES, _BYTES_OF_EVENT = 512 << 20, 600
_HINT = "Write the parts of fewer blocks."
_LATEST = float(1 << 52)
UNKNOWN_UNIT = (
    "The times are whole numbers, and the file does not say of what (cycles, ns or us): each one is drawn as 1 ns. "
    "Shares are right; times are only if they are nanoseconds."
)
OVERLAPPING = "parts that overlap others of their warp without lying in them end where the next one begins"
_KERNEL = "the kernel"
_Key = str | int
_Track = tuple[_Key, _Key]


class _Arguments(msgspec.Struct, gc=False):
    name: str = ""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    ts: float = -1.0
    dur: float = -1.0
    pid: _Key = 0
    tid: _Key = 0
    args: _Arguments | None = None


class _File(msgspec.Struct, gc=False):
    events: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"[]"), name="traceEvents")


_Spans = list[tuple[str, float, float]]


@parser
class KernelParts(Accompanying):
    """Recognised by the names of its processes and threads, before other Chrome traces."""

    format = "kernel-parts"
    title = "instrumented kernels"
    files = "Chrome traces with a process for each SM, and a thread for each block or warp"
    suffixes = (".json",)
    priority = 62

    def recognises(self, source: Source) -> bool:
        head = source.head
        return bool(_HEAD.match(head) and _SAYS_UNIT.search(head) and _SAYS_PART.search(head))

    def read(self, source: Source, progress: Progress) -> Trace:
        data = whole_content(source, progress.part(0.0, 0.3), "reading events", _HINT, _MAX_BYTES)
        events, damaged = _events(data)
        require_memory(source.path, len(events), _BYTES_OF_EVENT, _HINT)
        builder = TraceBuilder()
        tracks, wrong = _spans(events)
        names = _names_of(events)
        found = {track: place for track in tracks if (place := _place(track, names)) is not None}
        if not found:
            raise Malformed(
                source.path, "This trace holds no part of a kernel.", "Run the kernel, and write it again."
            )
        spans = {track: tracks[track] for track in found}
        cut = sum(_nest(rows) for rows in spans.values())
        builder.quality.note("overlapping", Effect.REPAIRED, OVERLAPPING, "", cut)
        whole = all(each.is_integer() for rows in spans.values() for _, *times in rows for each in times)
        _add(builder, spans, found, 1.0 if whole else NS_PER_US, progress.part(0.4, 0.8))
        if whole:
            builder.quality.note("unknown-unit", Effect.NOTED, UNKNOWN_UNIT)
        others = sum(len(rows) for track, rows in tracks.items() if track not in found)
        builder.quality.read(others + wrong + damaged)
        builder.quality.note("unknown", Effect.QUARANTINED, "events outside multiprocessors", "", others)
        builder.quality.note(
            "unusable",
            Effect.QUARANTINED,
            "events without a usable time, or without an end",
            "",
            wrong + damaged,
        )
        builder.came_from(source.name, self.format, "instrumented kernels")
        return builder.build(progress.part(0.8, 1.0))


def _events(data: bytes) -> tuple[list[_Event], int]:
    """The events of a list, or of the object around it, and how many cannot be read."""
    text = data.strip()
    if text.startswith(b"{"):
        try:
            text = bytes(msgspec.json.decode(text, type=_File).events)
        except UNREADABLE:
            return [], 1
    return Records(_Event).decoded(text)


def _names_of(events: list[_Event]) -> dict[tuple[str, _Key, _Key], str]:
    """What metadata calls processes and threads."""
    return {
        (each.name, each.pid, each.tid if each.name == "thread_name" else 0): each.args.name
        for each in events
        if each.ph == "M" and each.args is not None
    }


def _place(track: _Track, names: dict[tuple[str, _Key, _Key], str]) -> tuple[int, int, int] | None:
    """Multiprocessor, block and warp of a track; None for any other."""
    process = names.get(("process_name", track[0], 0)) or str(track[0])
    thread = names.get(("thread_name", *track)) or str(track[1])
    unit, block, warp = _PROCESS.match(process), _BLOCK.search(thread), _WARP.search(thread)
    if unit is None or (block is None and warp is None):
        return None
    return int(unit["unit"]), int(block["block"]) if block else 0, int(warp["warp"]) if warp else 0


def _spans(events: list[_Event]) -> tuple[dict[_Track, _Spans], int]:
    """What ran on each track from when to when, and how many events are unusable."""
    tracks: defaultdict[_Track, _Spans] = defaultdict(list)
    opened: defaultdict[_Track, list[tuple[str, float]]] = defaultdict(list)
    wrong = 0
    for each in events:
        track = each.pid, each.tid
        if each.ph not in ("X", "B", "E"):
            continue
        if not 0 <= each.ts < _LATEST or (each.ph == "X" and not 0 <= each.dur < _LATEST):
            wrong += 1
        elif each.ph == "X":
            tracks[track].append((each.name, each.ts, each.ts + each.dur))
        elif each.ph == "B":
            opened[track].append((each.name, each.ts))
        elif opened[track] and opened[track][-1][1] <= each.ts:
            name, start = opened[track].pop()
            tracks[track].append((name, start, each.ts))
        else:
            wrong += 1
    return dict(tracks), wrong + sum(map(len, opened.values()))


def _nest(rows: _Spans) -> int:
    """Sort the parts of one warp by their begin, and cut those that would end inside a later one; how many were cut."""
    rows.sort(key=lambda each: (each[1], -each[2]))
    around: list[int] = []  # numbers of parts that have not ended
    cut = 0
    for number, (_, start, end) in enumerate(rows):
        while around and (rows[around[-1]][2] <= start or rows[around[-1]][2] < end):
            before = around.pop()
            name, begin, until = rows[before]
            if until > start:
                rows[before] = (name, begin, start)
                cut += 1
        around.append(number)
    return cut


def _add(
    builder: TraceBuilder,
    spans: dict[_Track, _Spans],
    places: dict[_Track, tuple[int, int, int]],
    factor: float,
    progress: Progress,
) -> None:
    """A lane for each warp of each multiprocessor, more where blocks are on one at the same time."""
    first = min(start for rows in spans.values() for _, start, _ in rows)
    of_warp: defaultdict[tuple[int, int], list[_Track]] = defaultdict(list)
    for track, (unit, _, warp) in places.items():
        of_warp[unit, warp].append(track)
    for number, ((unit, warp), tracks) in enumerate(sorted(of_warp.items())):
        progress.step(number / len(of_warp), "sorting parts")
        columns = [
            np.rint((np.array([times for _, *times in spans[track]]) - first) * factor).astype(np.int64)
            for track in tracks
        ]
        begins = np.array([each[:, 0].min() for each in columns], np.int64)
        ends = np.array([each[:, 1].max() for each in columns], np.int64)
        for row, track, each, begin, end in zip(
            lowest_free_rows(begins, ends).tolist(), tracks, columns, begins, ends, strict=True
        ):
            beside = f" ({row + 1})" if row else ""
            name = f"SM {unit}, warp {warp}{beside}"
            lane = builder.lane(Lane(LaneKind.INSIDE_KERNEL, name, process=unit, thread=warp))
            title = block_name(_KERNEL, places[track][1])
            names = [builder.string(title), *(builder.string(name) for name, *_ in spans[track])]
            builder.quality.read(len(names))
            builder.add(
                np.append(begin, each[:, 0]),
                np.append(end, each[:, 1]),
                np.array(names, np.int32),
                lane,
                EventKind.OTHER,
            )
