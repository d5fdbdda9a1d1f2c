"""Execution traces in Chakra's own form (.et): nodes of the operators and of the kernels that they started.

The messages are those of ``et_def.proto`` of mlcommons/chakra, each after its length: first what is stated of the whole
file, then the nodes. A converter splits an operator into numbered parts, one for each kernel; the first stands for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import field

import msgspec

from parsers.files.base import Accompanying, Source, parser
from parsers.files.decoders import UNREADABLE
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.formats.pytorch.execution_trace import Inputs, Node, Operators
from parsers.model import Effect, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.results import KERNEL_TIMES, KERNEL_TIMES_TITLE, Cell, ResultTable, rows_shown
from parsers.protobuf.wire import Damaged, fields, integer, message, packed, text, varint

_START = regex(rb".{1,3}?(?:\x0a.[\x20-\x7e]{1,60})?\x12.\x0a\x06schema", re.DOTALL)
_MAX_BYTES = 1 << 30
_NAME, _BOOLEAN = 1, 27  # of an attribute
_ID, _NODE_NAME, _CALLED_BY, _DURATION, _INPUTS, _ATTRIBUTE = 1, 2, 4, 7, 8, 10
_PART = regex(r"\((\d{1,6})\)$")
_WORDS = {"True": "true", "False": "false", "None": "null"}
_WORD = regex(r"\b(?:True|False|None)\b")
_KERNEL_COLUMNS = 5  # name, scope, launches, time and share
_HINT = "Convert the trace again: chakra_converter PyTorch --input ... --output ..."

_EMPTY = "This execution trace holds no operator."
_OF_A_SIMULATOR = (
    "Its nodes were planned for a simulator, not recorded: none states how long it took.",
    "Record a program instead: torch.profiler with its execution trace, then chakra_converter PyTorch.",
)


@parser
class ChakraTrace(Accompanying):
    """Recognised by the schema that its first message states."""

    format = "chakra-trace"
    title = "Chakra execution traces"
    files = "operators and kernels of chakra_converter (.et)"
    suffixes = (".et",)
    priority = 45

    def recognises(self, source: Source) -> bool:
        return _START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        builder, found = TraceBuilder(), _Nodes()
        with open_bytes(source) as packed:
            stream = LimitedStream(packed, source, progress.part(0.0, 0.5), "reading operators")
            content = stream.whole(_HINT, _MAX_BYTES)
        damage = found.read(content, progress.part(0.5, 0.8)) or stream.damage
        builder.tables += found.operators.tables(builder)
        if found.launches:
            builder.tables.append(found.kernel_times(builder))
        if not builder.tables:
            raise Malformed(source.path, *(_OF_A_SIMULATOR if found.planned else (_EMPTY, _HINT)))
        bad = found.operators.bad
        builder.quality.read(bad)
        builder.quality.note("unreadable", Effect.QUARANTINED, "a node that cannot be read", "", bad)
        builder.quality.cut(damage, "; what comes before is counted")
        builder.came_from(source.name, self.format, "Chakra")
        return builder.build(progress.part(0.8, 1.0))


@dataclass(slots=True)
class _Nodes:
    """Operators with their inputs, how often and how long each kernel ran (us), and nodes of which neither is told."""

    operators: Operators = field(default_factory=Operators)
    launches: Counter[str] = field(default_factory=Counter)
    took: Counter[str] = field(default_factory=Counter)
    planned: int = 0

    def read(self, content: bytes, progress: Progress) -> str:
        """Reads the messages; returns why it ended early, empty where it did not."""
        try:
            for number, node in enumerate(_messages(content)):
                if number:
                    self._add(node)
                if not number % 1000:
                    progress.step(0.5, "reading operators")
        except Damaged as damage:
            return str(damage)
        return ""

    def _add(self, node: memoryview) -> None:
        try:
            read = _Read.of(node)
        except Damaged:
            self.operators.bad += 1
            return
        part = _PART.search(read.name)
        if read.on_cpu:
            if part is None or int(part[1]) == 0:
                name = _PART.sub("", read.name)
                self.operators.add_nodes([Node(read.id, name, read.called_by, read.inputs)])
        elif read.on_cpu is not None and read.micros:
            self.launches[read.name] += 1
            self.took[read.name] += read.micros
        else:
            self.planned += 1

    def kernel_times(self, builder: TraceBuilder) -> ResultTable:
        whole = max(sum(self.took.values()), 1)
        longest = self.took.most_common(rows_shown(builder.quality, len(self.took)))
        rows: list[tuple[Cell, ...]] = [
            (name, None, float(self.launches[name]), micros / 1e3, 100.0 * micros / whole)
            for name, micros in longest
        ]
        return ResultTable(KERNEL_TIMES_TITLE, KERNEL_TIMES[:_KERNEL_COLUMNS], tuple(rows))


@dataclass(slots=True)
class _Read:
    id: int = 0
    name: str = ""
    called_by: int | None = None
    micros: int = 0
    inputs: Inputs | None = None
    on_cpu: bool | None = None  # as the converter states it; what a simulation was told to run says nothing

    @staticmethod
    def of(node: memoryview) -> _Read:
        """A node; raises ``Damaged`` where it is none."""
        read = _Read()
        for number, _, value in fields(node):
            if number == _ID:
                read.id = integer(value)
            elif number == _NODE_NAME:
                read.name = text(value)
            elif number == _CALLED_BY and read.called_by is None:
                read.called_by = next(packed(value), None)
            elif number == _DURATION:
                read.micros = integer(value)
            elif number == _INPUTS:
                stated = {key: text(each) for key, _, each in fields(message(value))}
                read.inputs = Inputs(*(_as_json(stated.get(key, "")) for key in (1, 2, 3)))
            elif number == _ATTRIBUTE:
                attribute = {key: each for key, _, each in fields(message(value))}
                if text(attribute.get(_NAME, 0)) == "is_cpu_op":
                    read.on_cpu = attribute.get(_BOOLEAN, 0) == 1
        return read


def _messages(content: bytes) -> Iterator[memoryview]:
    """The messages of a file, each after its length; raises ``Damaged`` where one ends beyond the file."""
    view, at = memoryview(content), 0
    while at < len(view):
        size, at = varint(view, at, len(view))
        if at + size > len(view):
            raise Damaged("a message ends beyond the file")
        yield view[at : at + size]
        at += size


def _as_json(python: str) -> msgspec.Raw:
    """A list as Python prints it, as JSON; an empty one for what is none."""
    written = _WORD.sub(lambda word: _WORDS[word[0]], python.replace("'", '"')).encode()
    try:
        msgspec.json.decode(written, type=list)
    except UNREADABLE:
        return msgspec.Raw(b"[]")
    return msgspec.Raw(written)
