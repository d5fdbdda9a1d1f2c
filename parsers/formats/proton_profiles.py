"""Proton, Triton's profiler: kernels on their streams, parts of kernels, and times of kernels in a tree of scopes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import msgspec

from parsers.files.base import Accompanying, Parser, Source, parser
from parsers.files.decoders import from_json
from parsers.files.unpacking_limit import require_memory, whole_content
from parsers.model import Malformed, Progress, ResultColumn, ResultTable, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.names.kernels import distinct_names
from parsers.model.names.mangled import spelled_out
from parsers.model.names.source_files import is_own_frame
from parsers.model.results import KERNEL_TIMES, KERNEL_TIMES_TITLE, Cell, rows_shown
from parsers.model.units import NS_PER_MS
from parsers.proton.records import begins_like_proton, trace_of
from parsers.stacks.timeline import frame_name

_PARTS_TELLING = regex(rb'"pid"\s*:\s*"[^"]{0,8192} Core\d{1,6} CTA\d{1,10}"')


@parser
class ProtonInside(Accompanying):
    """Recognised by its first keys and by what it calls blocks."""

    format = "proton-inside"
    title = "Triton Proton"
    files = "the parts of instrumented kernels"
    suffixes = (".chrome_trace", ".json")
    priority = 60

    def recognises(self, source: Source) -> bool:
        return begins_like_proton(source.head) and _PARTS_TELLING.search(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.proton.inside_kernels import add_parts

        return trace_of(source, self.format, add_parts, progress)


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


_TREE_TELLING = regex(rb'"frame"\s*:\s*\{\s*"name"\s*:')
_START = regex(rb'\s*\[\s*\{\s*"(?:children"\s*:\s*\[|frame"\s*:\s*\{)')
_MAX_BYTES = 128 << 20
_BYTES_OF_NODE = 2_000  # of memory
_HINT = "Call proton.finalize() at the end of the program, and write the profile again."
_TIME, _CYCLES, _COUNT, _BYTES, _FLOPS = "time (ns)", "cycles", "count", "bytes", "flops"
_DEVICE = "device_id"
_FRAME = regex(r"^(?P<file>.+):(?P<line>\d{1,9})@(?P<function>.+)$", re.DOTALL)
_INDENT = "  "
_LONGEST = 300  # characters of a name in a table
_MAX_DEPTH = 60  # of the tree as it is shown
_LARGEST = 1e30
_BITS, _DATA_RATE, _KHZ = 8, 2, 1e3  # GPU memory gives data on both edges of its clock


class _Frame(msgspec.Struct, gc=False):
    name: str = ""


class _Node(msgspec.Struct):
    frame: _Frame = msgspec.field(default_factory=_Frame)
    metrics: dict[str, Any] = {}
    children: tuple[_Node, ...] = ()

    def number(self, metric: str) -> float:
        """A metric that is a number; zero for what is none."""
        value = self.metrics.get(metric)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return 0.0
        return float(value) if 0 < value < _LARGEST else 0.0

    @property
    def flops(self) -> float:
        return sum(self.number(metric) for metric in self.metrics if metric.startswith(_FLOPS))

    @property
    def is_of_a_device(self) -> bool:
        return _DEVICE in self.metrics


@dataclass(frozen=True, slots=True)
class _Place:
    """What the name of a frame says; profiles of large programs name each of few frames very often."""

    shown: str
    is_python: bool
    is_own: bool

    @staticmethod
    def of(name: str) -> _Place:
        found = _FRAME.match(name)
        shown = frame_name(found["function"], found["file"], int(found["line"])) if found else name
        shown = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
        return _Place(shown, found is not None, found is not None and is_own_frame(shown))


@dataclass(slots=True)
class _Kernel:
    """One kernel in one scope; bandwidth in bytes a second."""

    launches: float = 0.0
    ns: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0
    bandwidth: float = 0.0


@dataclass(slots=True)
class _Scope:
    """A node of the tree with all that is below it."""

    name: str
    depth: int
    spent: float = 0.0
    inner: list[_Scope] = field(default_factory=list)


@parser
class ProtonTree(Accompanying):
    """Recognised by its nodes."""

    format = "proton-tree"
    title = "Triton Proton"
    files = "profiles (.hatchet)"
    suffixes = (".hatchet", ".json")
    priority = 47

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None and _TREE_TELLING.search(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        hint = "Profile fewer scopes."
        content = whole_content(source, progress.part(0.0, 0.4), "reading the profile", hint, _MAX_BYTES)
        require_memory(source.path, content.count(b'"frame"'), _BYTES_OF_NODE, hint)
        try:
            first, *rest = msgspec.json.decode(content, type=list[msgspec.Raw])
            root = from_json(first, _Node)
            devices = msgspec.json.decode(rest[0], type=dict[str, dict[str, dict[str, Any]]]) if rest else {}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise Malformed(source.path, f"This profile cannot be read ({error}).", _HINT) from error
        builder = TraceBuilder()
        builder.tables += _tables(root, devices, builder, progress.part(0.4, 0.9))
        if not builder.tables:
            raise Malformed(source.path, "This profile of Proton holds no kernel with a time.", _HINT)
        builder.came_from(source.name, self.format, "Triton Proton")
        return builder.build(progress.part(0.9, 1.0))


def _tables(
    root: _Node, devices: dict[str, dict[str, dict[str, Any]]], builder: TraceBuilder, progress: Progress
) -> Iterator[ResultTable]:
    is_timed = any(node.is_of_a_device and node.number(_TIME) for node in _nodes(root))
    measure = _TIME if is_timed else _CYCLES
    kernels: dict[tuple[str, str], _Kernel] = {}
    places = {name: _Place.of(name) for name in {node.frame.name for node in _nodes(root)}}
    top = _Scope(places[root.frame.name].shown, -1)
    waiting: list[tuple[_Node, _Scope]] = [(root, top)]
    scopes: list[_Scope] = [top]
    has_own = any(place.is_own for place in places.values())
    while waiting:
        node, scope = waiting.pop()
        progress.step(0.5, "adding up times")
        for child in node.children:
            if child.is_of_a_device and (spent := child.number(measure)):
                scope.spent += spent
                inner = "" if scope is top else scope.name
                _add(kernels.setdefault((child.frame.name, inner), _Kernel()), child, measure, devices)
            if not child.children:
                continue
            place = places[child.frame.name]
            if has_own and place.is_python and not place.is_own:
                waiting.append((child, scope))  # what libraries call stands for the line that called them
            else:
                within = _Scope(place.shown, scope.depth + 1)
                scope.inner.append(within)
                scopes.append(within)
                waiting.append((child, within))
    for each in reversed(scopes):  # children come after their parents
        each.spent += sum(inner.spent for inner in each.inner)
    if top.spent:
        yield _kernel_table(kernels, top.spent, measure, builder)
    if top.spent and top.inner:
        yield _scope_table(top, measure, builder)


def _nodes(root: _Node) -> Iterator[_Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children


def _add(kernel: _Kernel, node: _Node, measure: str, devices: dict[str, dict[str, dict[str, Any]]]) -> None:
    kernel.launches += node.number(_COUNT)
    kernel.ns += node.number(measure)
    kernel.bytes += node.number(_BYTES)
    kernel.flops += node.flops
    kernel.bandwidth = _bandwidth(
        devices.get(str(node.metrics.get("device_type")), {}).get(str(node.metrics.get(_DEVICE)), {})
    )


def _bandwidth(device: dict[str, Any]) -> float:
    """Bytes a second of a GPU's memory, whose clock is stated in kHz and its width in bits; zero where they are not."""
    described = _Node(metrics=device)
    clock, width = described.number("memory_clock_rate"), described.number("bus_width")
    return _DATA_RATE * clock * _KHZ * width / _BITS


def _kernel_table(
    kernels: dict[tuple[str, str], _Kernel], whole: float, measure: str, builder: TraceBuilder
) -> ResultTable:
    longest = sorted(kernels.items(), key=lambda each: -each[1].ns)
    rows: list[tuple[Cell, ...]] = []
    different = list(dict.fromkeys(name for name, _ in kernels))
    short = dict(zip(different, distinct_names([spelled_out(name) for name in different]), strict=True))
    for (name, scope), each in longest[: rows_shown(builder.quality, len(longest))]:
        timed = measure == _TIME
        rows.append(
            (
                short[name][:_LONGEST],
                scope or None,
                each.launches or None,
                each.ns / NS_PER_MS if timed else None,
                100 * each.ns / whole,
                each.bytes / each.ns if timed and each.bytes else None,
                each.bandwidth / 1e9 if timed and each.bytes and each.bandwidth else None,
                each.flops / each.ns / 1e3 if timed and each.flops else None,
            )
        )
    empty = {
        at for at in range(len(KERNEL_TIMES)) if all(row[at] is None for row in rows)
    }  # nobody stated bytes or operations
    kept = [at for at in range(len(KERNEL_TIMES)) if at not in empty]
    title = KERNEL_TIMES_TITLE if measure == _TIME else "Parts of kernels, by clock cycles"
    return ResultTable(
        title, tuple(KERNEL_TIMES[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows)
    )


def _scope_table(top: _Scope, measure: str, builder: TraceBuilder) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    waiting = sorted(top.inner, key=lambda each: each.spent)
    while waiting:
        scope = waiting.pop()
        if not scope.spent:
            continue
        name = _INDENT * min(scope.depth, _MAX_DEPTH) + scope.name
        time = scope.spent / NS_PER_MS if measure == _TIME else scope.spent
        rows.append((name, time, 100 * scope.spent / top.spent))
        waiting += sorted(scope.inner, key=lambda each: each.spent)
    column = ResultColumn("time", "ms") if measure == _TIME else ResultColumn("clock cycles")
    shown = rows[: rows_shown(builder.quality, len(rows))]
    return ResultTable("Scopes", (ResultColumn("scope"), column, ResultColumn("share", "%")), tuple(shown))
