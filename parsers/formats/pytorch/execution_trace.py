"""Execution traces of PyTorch (``ExecutionTraceObserver``), as Chakra's tools take them: operators with their inputs.

The layout is that of ``torch/csrc/profiler/standalone/execution_trace_observer.cpp``: no times, and an operator stands
after those that it called. Before schema 1.1.0, which torch 2.3 brought, a node's inputs stood in the node itself.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from parsers.files.base import Accompanying, Source, parser
from parsers.files.decoders import UNREADABLE
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.json_records import Records
from parsers.model import I64, Effect, Excessive, Malformed, Progress, ResultTable, Trace
from parsers.model.arrays import MAX_NUMBER, place_in
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.results import (
    CALLED_BY,
    COPIES,
    COPIES_TITLE,
    OPERATORS,
    OPERATORS_TITLE,
    Cell,
    rows_shown,
)

if TYPE_CHECKING:
    from parsers.json_lists import Piece

_START = regex(rb'\s*\{\s*"schema"\s*:\s*"[\d.]{1,20}(-chakra|"\s*,\s*"pid"\s*:\s*\d+\s*,\s*"time")')
_DEEPEST, _OWNER_DEPTH = 2, 1  # brackets around a node, and around the file
# begin the names of the observer's own nodes
_OWN = ("[pytorch|profiler|execution_trace|", "[pytorch|profiler|execution_graph|")
_DEPENDS_ON_NUMBERS = regex(r"convolution|attention|attn|upsample|embedding_dense|index_select")
_COPIES = ("aten::copy_",)
_TENSOR = regex(r"Tensor\((.{1,60})\)")
_MAX_DISTINCT = 1_000_000
_OF_LIBRARY = "::"  # in names of operators
_MAX_CALLERS = 6  # of an operator, the innermost first
_MAX_NAME, _MAX_INPUTS = 300, 4_000  # characters
_NONE = -1
_HINT = "Call unregister_callback() of the observer, which finishes the file, and record again."


class Inputs(msgspec.Struct, gc=False):
    """What an operator was called with, as JSON lists."""

    values: msgspec.Raw = msgspec.Raw(b"[]")
    shapes: msgspec.Raw = msgspec.Raw(b"[]")
    types: msgspec.Raw = msgspec.Raw(b"[]")


class Node(msgspec.Struct, gc=False):
    """An operator, and the number of the one that called it."""

    id: int
    name: str
    ctrl_deps: int | None = None
    inputs: Inputs | None = None


class _OlderNode(msgspec.Struct, gc=False):
    id: int
    name: str
    parent: int | None = None
    inputs: msgspec.Raw = msgspec.Raw(b"[]")
    input_shapes: msgspec.Raw = msgspec.Raw(b"[]")
    input_types: msgspec.Raw = msgspec.Raw(b"[]")

    def as_newer(self) -> Node:
        inputs = Inputs(self.inputs, self.input_shapes, self.input_types)
        return Node(self.id, self.name, self.parent, inputs)


_NODES, _OLDER_NODES = Records(Node), Records(_OlderNode)
_SHAPES = msgspec.json.Decoder(list[list[Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)]]])


@parser
class ExecutionTrace(Accompanying):
    """Recognised by its schema."""

    format = "execution-trace"
    title = "PyTorch execution traces"
    files = "JSON of ExecutionTraceObserver, as used with Chakra"
    suffixes = (".json",)
    priority = 44

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.json_lists import JsonLists

        builder = TraceBuilder()
        nodes = Operators(is_older=b"-chakra" not in source.head[:100])
        with open_bytes(source) as packed:
            stream = LimitedStream(packed, source, progress.part(0.0, 0.8), "reading operators")
            lists = JsonLists(stream, {"nodes"}, _DEEPEST, _OWNER_DEPTH)
            for piece in lists.pieces():
                nodes.add(piece)
        builder.tables += nodes.tables(builder)
        if not builder.tables:
            raise Malformed(source.path, "This execution trace holds no operator.", _HINT)
        builder.quality.read(nodes.bad)
        builder.quality.note("unreadable", Effect.QUARANTINED, "a node that cannot be read", "", nodes.bad)
        builder.quality.cut(lists.damage, "; what comes before is counted")
        builder.came_from(source.name, self.format, "PyTorch")
        return builder.build(progress.part(0.8, 1.0))


@dataclass(slots=True)
class Operators:
    """The operators as columns: their number, that of who called them, and which of the different calls each is."""

    is_older: bool = False
    bad: int = 0
    _ids: list[I64] = field(default_factory=list)
    _kinds: dict[tuple[str, bytes, bytes, bytes], int] = field(default_factory=dict)
    _copies: Counter[tuple[str, str]] = field(default_factory=Counter)
    _copied: Counter[tuple[str, str]] = field(default_factory=Counter)  # bytes

    def add(self, piece: Piece) -> None:
        nodes, bad = self._decoded(piece)
        self.bad += bad
        self.add_nodes(nodes)

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Nodes that were read already; the observer's own are left out."""
        rows: list[tuple[int, int, int]] = []
        for each in nodes:
            if each.name.startswith(_OWN):
                continue
            if not 0 <= each.id < MAX_NUMBER or not 0 <= (each.ctrl_deps or 0) < MAX_NUMBER:
                self.bad += 1
                continue
            inputs = each.inputs or Inputs()
            numbers = bytes(inputs.values) if _DEPENDS_ON_NUMBERS.search(each.name) else b""
            key = (each.name, bytes(inputs.shapes), bytes(inputs.types), numbers)
            if sum(map(len, key)) > _MAX_INPUTS:
                key = (each.name[:_MAX_NAME], b"[]", b"[]", b"")
            kind = self._kinds.setdefault(_without_tensors(key), len(self._kinds))
            rows.append((each.id, _NONE if each.ctrl_deps is None else each.ctrl_deps, kind))
            if each.name in _COPIES:
                self._count_copy(inputs)
        if len(self._kinds) > _MAX_DISTINCT:
            raise Excessive("different calls of operators", _MAX_DISTINCT)
        self._ids.append(np.array(rows, np.int64).reshape(-1, 3))

    def _decoded(self, piece: Piece) -> tuple[list[Node], int]:
        if not self.is_older:
            return _NODES.decoded(piece.text)
        older, bad = _OLDER_NODES.decoded(piece.text)
        return [each.as_newer() for each in older], bad

    def tables(self, builder: TraceBuilder) -> list[ResultTable]:
        nodes = np.concatenate([np.empty((0, 3), np.int64), *self._ids])
        if not len(nodes):
            return []
        names = {name: number for number, name in enumerate(dict.fromkeys(key[0] for key in self._kinds))}
        name_of_kind = np.array([names[key[0]] for key in self._kinds], np.int64)
        # not a range, which may count steps
        is_operator = np.array([_OF_LIBRARY in name for name in names], bool)
        caller = place_in(nodes[:, 0], nodes[:, 1])
        columns, at = [nodes[:, 2]], caller
        for _ in range(_MAX_CALLERS):
            called_by = np.where(at >= 0, name_of_kind[nodes[at, 2]], _NONE)
            columns.append(np.where(is_operator[called_by], called_by, _NONE))
            at = np.where(at >= 0, caller[at], _NONE)
        pairs, count = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
        kinds, titles = list(self._kinds), list(names)
        elements = np.array([_elements_of(shapes) for _, shapes, _, _ in kinds], np.float64)
        largest = np.argsort(-count * elements[pairs[:, 0]], kind="stable")
        rows: list[tuple[Cell, ...]] = []
        for row in largest[: rows_shown(builder.quality, len(pairs))].tolist():
            kind, *callers = pairs[row].tolist()
            name, shapes, types, numbers = kinds[kind]
            by = CALLED_BY.join(titles[each] for each in callers if each >= 0)
            rows.append(
                (name, by or None, float(count[row]), *_as_the_profiler_states(shapes, types, numbers))
            )
        found = [ResultTable(OPERATORS_TITLE, OPERATORS, tuple(rows))]
        if self._copies:
            copies = [
                (*ends, float(times), self._copied[ends] / 1e6)
                for ends, times in self._copies.most_common(100)
            ]
            found.append(ResultTable(COPIES_TITLE, COPIES, tuple(copies)))
        return found

    def _count_copy(self, inputs: Inputs) -> None:
        """Of a copy the first tensor is the target, the second the source; each ends with its device."""
        with contextlib.suppress(*UNREADABLE, IndexError, TypeError, ValueError):
            values = msgspec.json.decode(inputs.values, type=list[Any])
            target, source = values[0], values[1]
            ends = (str(source[5]).partition(":")[0][:20], str(target[5]).partition(":")[0][:20])
            size = int(target[3]) * int(target[4])
            if ends[0] != ends[1] and 0 <= size < MAX_NUMBER:
                self._copies[ends] += 1
                self._copied[ends] += size


def _without_tensors(key: tuple[str, bytes, bytes, bytes]) -> tuple[str, bytes, bytes, bytes]:
    """The same key for calls that differ only in which tensors they got."""
    name, shapes, types, numbers = key
    if numbers:
        with contextlib.suppress(*UNREADABLE, TypeError):
            stated = msgspec.json.decode(types, type=list[Any])
            values = msgspec.json.decode(numbers, type=list[Any])
            numbers = msgspec.json.encode(
                ["" if "Tensor" in str(of) else value for of, value in zip(stated, values, strict=False)]
            )
    return name, shapes, types, numbers


def _elements_of(shapes: bytes) -> float:
    """Of all tensors that a call is given, at most."""
    with contextlib.suppress(*UNREADABLE):
        return float(sum(math.prod(map(float, each)) for each in _SHAPES.decode(shapes) if each))
    return 0.0


def _as_the_profiler_states(shapes: bytes, types: bytes, numbers: bytes) -> tuple[str, str, str | None]:
    """Shapes, types and numbers as JSON in the words of PyTorch's profiler: no shape for what is no tensor."""
    try:
        found: list[Any] = msgspec.json.decode(shapes, type=list[Any])
        stated = [str(each) for each in msgspec.json.decode(types, type=list[Any])]
        values = msgspec.json.decode(numbers, type=list[Any]) if numbers else []
    except UNREADABLE:
        return "[]", "[]", None
    plain = [shape if "Tensor" in of else [] for shape, of in zip(found, stated, strict=False)]
    own = [match[1] if (match := _TENSOR.search(each)) else "" for each in stated]
    texts = [str(value) for value in values]
    return _json(plain), _json(own), _json(texts) if texts else None


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
