"""A cubin: how long the code of each kernel is, and the line of the program behind each of its instructions.

The container is ELF, the lines are DWARF 2 to 4 with NVIDIA's two extensions for inlined functions.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field

from parsers.model import SourcePlace
from parsers.model.late import dataclass
from parsers.protobuf.wire import Damaged

ELF = b"\x7fELF\x02\x01"  # 64 bits, little-endian
CODE, LINES = ".text.", ".debug_line"
MAX_NAME_LENGTH = 32_768
LAST_LINE = (1 << 31) - 1
MAX_ROWS = 1_000_000  # of the lines of one kernel
_SET_ADDRESS, _END_SEQUENCE, _INLINED_CALL = 2, 1, 0x90
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9


@dataclass(frozen=True, slots=True)
class LineRow:
    """From ``offset`` on, the code is of this line; ``caller`` is the row (from 1) of the call where it was inlined."""

    offset: int
    file: str
    line: int
    caller: int


@dataclass(slots=True)
class Cubin:
    """Sections of code by the name of their function, as (number, bytes), and the table of lines, not yet read."""

    code: dict[str, tuple[int, int]] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)  # section -> where its lines begin
    programs: list[_Program] = field(default_factory=list)

    def places(self, function: str, size: int) -> tuple[tuple[int, ...], tuple[SourcePlace, ...]]:
        """The place of each instruction of a function, ``size`` bytes each, -1 for none, and the places."""
        section, length = self.code[function]
        offsets: list[int] = []
        places: list[SourcePlace] = []
        for row in self._rows(section):
            offsets.append(row.offset)
            inlined_at = row.caller - 1 if 0 < row.caller <= len(places) else -1
            places.append(SourcePlace(row.file, row.line, inlined_at))
        order = sorted(range(len(offsets)), key=offsets.__getitem__)
        ordered = [offsets[at] for at in order]
        found = (bisect_right(ordered, offset) - 1 for offset in range(0, length - length % size, size))
        return tuple(-1 if at < 0 else order[at] for at in found), tuple(places)

    def _rows(self, section: int) -> Iterator[LineRow]:
        start = self.starts.get(section, -1)
        for program in self.programs:
            if program.first <= start < program.end:
                try:
                    yield from program.rows(start)
                except (Damaged, IndexError):
                    return


def read_cubin(data: bytes) -> Cubin:
    """Raises ``Damaged`` for what is no ELF file of 64 bits or is cut."""
    try:
        return _read(data)
    except (struct.error, IndexError) as error:
        raise Damaged("the code of a kernel is damaged") from error


def _read(data: bytes) -> Cubin:
    if not data.startswith(ELF):
        raise Damaged("the code of a kernel is not an ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    count, names = struct.unpack_from("<HH", data, 0x3C)
    if table + 64 * count > len(data):
        raise Damaged("the list of sections ends beyond the code of a kernel")
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * at) for at in range(count)]

    def range_of(number: int) -> tuple[int, int]:
        _, _, _, _, offset, size, *_ = sections[number]
        if offset + size > len(data):
            raise Damaged("a section of code ends beyond its file")
        return offset, offset + size

    words, _ = range_of(names)
    titles = [
        data[words + each[0] : words + each[0] + MAX_NAME_LENGTH]
        .partition(b"\0")[0]
        .decode("utf-8", "replace")
        for each in sections
    ]
    cubin = Cubin()
    for number, title in enumerate(titles):
        if title.startswith(CODE):
            begin, end = range_of(number)
            cubin.code[title.removeprefix(CODE)] = number, end - begin
        elif title == LINES:
            begin, end = range_of(number)
            cubin.programs = list(_programs(data[begin:end]))
        elif title == f".rela{LINES}":
            begin, end = range_of(number)
            symbols, _ = range_of(sections[number][6])
            for place, info, _ in struct.iter_unpack("<QQq", data[begin : end - (end - begin) % 24]):
                (section,) = struct.unpack_from("<H", data, symbols + 24 * (info >> 32) + 6)
                cubin.starts.setdefault(section, place)
    return cubin


@dataclass(slots=True)
class _Program:
    """One program for the table of lines: where it begins and ends, and what its header says."""

    data: bytes
    first: int
    end: int
    smallest: int
    base: int
    span: int
    operands: list[int]
    files: list[str]

    def rows(self, start: int) -> Iterator[LineRow]:
        """The rows of the sequence whose address stands at ``start``."""
        at = start + 8
        offset, file, line, caller = 0, 1, 1, 0
        for _ in range(MAX_ROWS):
            if at >= self.end:
                return
            code = self.data[at]
            at += 1
            made = False
            if code >= len(self.operands) + 1:
                code -= len(self.operands) + 1
                offset += code // self.span * self.smallest
                line += self.base + code % self.span
                made = True
            elif code == 0:
                size, at = _unsigned(self.data, at)
                kind = self.data[at] if at < self.end else _END_SEQUENCE
                if kind in (_END_SEQUENCE, _SET_ADDRESS):
                    return
                if kind == _INLINED_CALL:
                    caller, _ = _unsigned(self.data, at + 1)
                at += size
            elif code == _COPY:
                made = True
            elif code == _ADVANCE_LINE:
                step, at = _signed(self.data, at)
                line += step
            elif code == _CONST_ADD_PC:
                offset += (255 - len(self.operands) - 1) // self.span * self.smallest
            elif code == _FIXED_ADVANCE_PC:
                offset += int.from_bytes(self.data[at : at + 2], "little")
                at += 2
            else:
                for operand in range(self.operands[code - 1]):
                    value, at = _unsigned(self.data, at)
                    if code == _ADVANCE_PC and operand == 0:
                        offset += value * self.smallest
                    elif code == _SET_FILE and operand == 0:
                        file = value
            if made:
                name = self.files[file - 1] if 0 < file <= len(self.files) else ""
                yield LineRow(offset, name, min(max(line, 0), LAST_LINE), caller)


def _programs(data: bytes) -> Iterator[_Program]:
    """Every program of the section; those in a version that no CUDA compiler writes are left out."""
    at = 0
    while at + 10 < len(data):
        length, version, header = struct.unpack_from("<IHI", data, at)
        first, end = at + 10 + header, min(at + 4 + length, len(data))
        if 2 <= version <= 4 and first <= end:
            place = at + 10
            smallest, place = data[place], place + (1 if version < 4 else 2)
            (base,) = struct.unpack_from("<b", data, place + 1)
            span, known = data[place + 2], data[place + 3]
            operands = list(data[place + 4 : place + 3 + known])
            yield _Program(
                data, first, end, smallest, base, max(span, 1), operands, _files(data, place + 3 + known)
            )
        at += 4 + length


def _files(data: bytes, at: int) -> list[str]:
    """The paths of a header, folders before them."""
    folders: list[str] = []
    files: list[str] = []
    name, at = _word(data, at)
    while name:
        folders.append(name)
        name, at = _word(data, at)
    name, at = _word(data, at)
    while name:
        folder, at = _unsigned(data, at)
        for _ in ("time", "size"):
            _, at = _unsigned(data, at)
        inside = 0 < folder <= len(folders) and not name.startswith("/")
        files.append(f"{folders[folder - 1]}/{name}" if inside else name)
        name, at = _word(data, at)
    return files


def _word(data: bytes, at: int) -> tuple[str, int]:
    end = data.find(b"\0", at)
    if end < 0:
        raise Damaged("a name of a file is cut")
    return data[at:end].decode("utf-8", "replace"), end + 1


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise Damaged("a number is cut")


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, after = _unsigned(data, at)
    bits = 7 * (after - at)
    return value - (1 << bits) if value >> (bits - 1) else value, after
