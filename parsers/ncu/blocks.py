"""The outer structure of a binary report: a file header, then blocks of length-prefixed messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from gzip import BadGzipFile
from itertools import chain, repeat
from typing import IO, cast

import zstandard
from isal import isal_zlib

from parsers.model.late import dataclass
from parsers.protobuf.wire import Damaged, fields, integer, message, text

MAGIC = b"NVR\0"
_ISAL_ERROR = cast(type[Exception], isal_zlib.IsalError)
UNPACKING_ERRORS = (EOFError, BadGzipFile, _ISAL_ERROR, zstandard.ZstdError)
MAX_HEADER = 64 * 1024**2
MAX_PAYLOAD = 2 * 1024**3
MAX_STRINGS = 500_000  # a report of every metric has some thousands
_BYTES_AT_ONCE = 4 * 1024**2


@dataclass(slots=True)
class Session:
    """What the report says about the session as a whole; environment variables are not read."""

    version: str = ""
    device_names: list[str] = field(default_factory=list)
    profiler_command: str = ""


@dataclass(slots=True)
class Block:
    """One block: how many messages of which kind its payload holds, and the names it adds to the string table."""

    sources: int = 0
    results: int = 0
    ranges: int = 0
    command_lists: int = 0
    graphs: int = 0
    strings: list[str] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    payload_size: int = 0
    payload: bytes = b""

    @property
    def measured(self) -> int:
        """How many results of any kind the payload holds."""
        return self.results + self.ranges + self.command_lists + self.graphs

    def messages(self) -> Iterator[tuple[str, memoryview]]:
        """(kind, message): source code, a launch, range, command list or CUDA graph; raises ``Damaged`` at a cut."""
        view = memoryview(self.payload)
        at = 0
        counts = {
            "source": self.sources,
            "launch": self.results,
            "range": self.ranges,
            "command list": self.command_lists,
            "CUDA graph": self.graphs,
        }
        for kind in chain.from_iterable(repeat(kind, count) for kind, count in counts.items()):
            if at + 4 > len(view):
                raise Damaged("a block ends before its last message")
            size = int.from_bytes(view[at : at + 4], "little")
            at += 4
            if at + size > len(view):
                raise Damaged("a message ends beyond its block")
            yield kind, view[at : at + size]
            at += size


def read_blocks(stream: IO[bytes], session: Session, allow: Callable[[int], None]) -> Iterator[Block]:
    """Every block with its payload; fills ``session`` on the way. Raises ``Damaged`` at the first unreadable one.

    ``allow`` is told each block's size before it is read and may refuse it.
    """
    if stream.read(4) != MAGIC:
        raise Damaged("not a report")
    _exactly(stream, _size(stream, MAX_HEADER))
    while prefix := stream.read(4):
        if len(prefix) < 4:
            raise Damaged("the file is cut")
        size = int.from_bytes(prefix, "little")
        if size > MAX_HEADER:
            raise Damaged("a block header is impossibly large")
        if size == 0:
            raise Damaged("there are zeros where a block should begin")
        allow(size)
        block = _header(_exactly(stream, size), session)
        if block.payload_size > MAX_PAYLOAD:
            raise Damaged("a block is impossibly large")
        allow(block.payload_size)
        if block.measured or block.sources:
            block.payload = _exactly(stream, block.payload_size)
        else:
            _skip(stream, block.payload_size)
        yield block


def _size(stream: IO[bytes], largest: int) -> int:
    size = int.from_bytes(_exactly(stream, 4), "little")
    if size > largest:
        raise Damaged("a length is impossibly large")
    return size


def _exactly(stream: IO[bytes], size: int) -> bytes:
    parts = []
    while size > 0:
        part = stream.read(min(size, _BYTES_AT_ONCE))
        if not part:
            raise Damaged("the file is cut")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _skip(stream: IO[bytes], size: int) -> None:
    while size > 0:
        part = stream.read(min(size, _BYTES_AT_ONCE))
        if not part:
            raise Damaged("the file is cut")
        size -= len(part)


def _header(data: bytes, session: Session) -> Block:
    block = Block()
    for number, _, value in fields(data):
        if number == 1:
            block.sources = _count(value)
        elif number == 2:
            block.results = _count(value)
        elif number == 3:
            _read_session(message(value), session)
        elif number == 4:
            _read_strings(message(value), block)
        elif number == 5:
            block.payload_size = integer(value)
        elif number == 6:
            pid, name = _process(message(value))
            block.processes[pid] = name
        elif number == 7:
            block.ranges = _count(value)
        elif number == 8:
            block.command_lists = _count(value)
        elif number == 9:
            block.graphs = _count(value)
    return block


def _read_strings(data: memoryview, block: Block) -> None:
    for number, _, value in fields(data):
        if number == 1:
            block.strings.append(text(value))
            if len(block.strings) > MAX_STRINGS:
                raise Damaged("a table of names is impossibly long")


def _count(value: int | memoryview) -> int:
    count = integer(value)
    if count > 10_000_000:
        raise Damaged("a count is impossibly large")
    return count


def _process(data: memoryview) -> tuple[int, str]:
    pid, name = 0, ""
    for number, _, value in fields(data):
        if number == 1:
            pid = integer(value)
        elif number == 3:
            name = text(value)
    return pid, name.replace("\\", "/").rsplit("/", 1)[-1]


def _read_session(data: memoryview, session: Session) -> None:
    for number, _, value in fields(data):
        if number == 6:
            session.device_names += [text(each) for at, _, each in fields(message(value)) if at == 2]
        elif number == 8:
            found = {at: text(each) for at, _, each in fields(message(value)) if at in (1, 2)}
            if "compute" in found.get(1, "").lower() or not session.version:
                session.version = found.get(2, "")
        elif number == 11 and not isinstance(value, int):
            session.profiler_command = text(value)
