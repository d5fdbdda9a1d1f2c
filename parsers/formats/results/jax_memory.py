"""What holds the memory of devices in JAX: profiles that jax.profiler.save_device_memory_profile wrote."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import field

from parsers.files.base import Accompanying, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Malformed, Progress, Trace
from parsers.model.builder import MAX_TABLES, TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.names.source_files import is_own_file
from parsers.model.results import Cell, ResultTable, rows_shown, titled
from parsers.model.units import percent, size
from parsers.protobuf.wire import Damaged, fields, integer, message, packed, text

_START = regex(rb"\n\x04\x08.\x10.\n\x04\x08.\x10.\x12", re.DOTALL)
_COUNTED = (b"\x0ballocations", b"\x05space", b"\x04kind")
_SAMPLE, _LOCATION, _FUNCTION, _STRING = 2, 4, 5, 6
_BUFFER = "buffer"
_COLUMNS = titled("Function", "Allocations", "Size (B)", "Share (%)")
_HINT = "Write it again: jax.profiler.save_device_memory_profile."


@parser
class JaxMemory(Accompanying):
    """Recognised by what such a profile counts: allocations and their bytes, of buffers and programs."""

    format = "jax-memory"
    title = "XProf (JAX, TensorFlow)"
    files = "memory profiles of JAX"
    suffixes = (".prof",)
    priority = 46

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None and all(each in source.head for each in _COUNTED)

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        with open_bytes(source) as stream:
            content = LimitedStream(stream, source, progress.part(0.0, 0.5), "reading the profile").whole(
                _HINT
            )
        try:
            held = _Profile.of(content).held()
        except (Damaged, IndexError, KeyError) as error:
            raise Malformed(source.path, "This memory profile is damaged.", _HINT) from error
        for kind, by_function in sorted(held.items(), key=_largest_buffers_first)[:MAX_TABLES]:
            builder.tables.append(_table(builder, *kind, by_function))
        if not builder.tables:
            raise Malformed(source.path, "This memory profile holds no allocation.", _HINT)
        builder.came_from(source.name, self.format, "JAX")
        return builder.build(progress.part(0.5, 1.0))


@dataclass(slots=True)
class _Profile:
    """The messages of a profile by their numbers."""

    strings: list[str] = field(default_factory=list)
    samples: list[memoryview] = field(default_factory=list)
    functions: dict[int, tuple[int, int]] = field(default_factory=dict)  # texts of name and file
    places: dict[int, list[tuple[int, int]]] = field(
        default_factory=dict
    )  # functions and lines, innermost first

    @classmethod
    def of(cls, content: bytes) -> _Profile:
        found = cls()
        for number, _, value in fields(content):
            if number == _STRING:
                found.strings.append(text(value))
            elif number == _SAMPLE:
                found.samples.append(message(value))
            elif number == _FUNCTION:
                stated = _numbers(message(value))
                found.functions[stated.get(1, 0)] = stated.get(2, 0), stated.get(4, 0)
            elif number == _LOCATION:
                of_place = message(value)
                lines = [_numbers(message(each)) for key, _, each in fields(of_place) if key == 4]
                found.places[_numbers(of_place).get(1, 0)] = [
                    (line.get(1, 0), line.get(2, 0)) for line in lines
                ]
        return found

    def held(self) -> dict[tuple[str, str], dict[tuple[str, int], int]]:
        """Bytes by kind and device, each by the function that asked for them and how often it did."""
        size_of: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        count_of: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for sample in self.samples:
            labels: dict[str, str] = {}
            places: list[int] = []
            values: list[int] = []
            for number, _, value in fields(sample):
                if number == 3:
                    stated = _numbers(message(value))
                    labels[self.strings[stated.get(1, 0)]] = self.strings[stated.get(2, 0)]
                elif number in (1, 2):
                    (places if number == 1 else values).extend(packed(value))
            kind = labels.get("kind", ""), labels.get("device", "")
            count, held = (*values, 0, 0)[:2]
            if not count and not held:
                continue
            name = self._function(places)
            count_of[kind][name] += count
            size_of[kind][name] += held
        return {
            kind: {(name, count_of[kind][name]): held for name, held in sizes.most_common()}
            for kind, sizes in size_of.items()
        }

    def _function(self, places: list[int]) -> str:
        """The innermost function of the program's own, else the innermost one."""
        frames = [frame for place in places for frame in self.places.get(place, ())]
        named = [
            (self.strings[name], self.strings[file], line)
            for function, line in frames
            for name, file in (self.functions[function],)
        ]
        own = next((each for each in named if is_own_file(each[1])), next(iter(named), ("", "", 0)))
        return f"{own[0]} ({own[1]}:{own[2]})" if own[1] else own[0] or "no function"


def _largest_buffers_first(held: tuple[tuple[str, str], dict[tuple[str, int], int]]) -> tuple[bool, int]:
    return held[0][0] != _BUFFER, -sum(held[1].values())


def _table(builder: TraceBuilder, kind: str, device: str, held: dict[tuple[str, int], int]) -> ResultTable:
    whole = sum(held.values())
    where = f" of {device}" if device else ""
    what = f"buffers{where}" if kind == _BUFFER else f"compiled programs{where}"
    rows: list[tuple[Cell, ...]] = [
        (name, float(count), float(size_of), size_of / whole * 100.0 if whole else None)
        for (name, count), size_of in held.items()
    ]
    (first, _), most = next(iter(held.items()))
    by = f", {percent(most / whole)} of it from {first.partition(' (')[0]}" if 2 * most >= whole > 0 else ""
    shown = rows[: rows_shown(builder.quality, len(rows))]
    return ResultTable(f"Memory of JAX, {size(whole)} in {what}{by}", _COLUMNS, tuple(shown))


def _numbers(content: memoryview) -> dict[int, int]:
    return {number: integer(value) for number, _, value in fields(content) if isinstance(value, int)}
