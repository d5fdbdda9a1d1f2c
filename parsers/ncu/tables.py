"""Finds the CSV tables in what Nsight Compute printed, between tool messages and the program's own output."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO

IDENTITY_COLUMNS = frozenset(
    {
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Kernel Time",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        "Invocations",
    }
)
_MESSAGE = re.compile(r"==(?P<kind>[A-Z]+)== ?(?P<text>.*)")
_DELIMITERS = (",", ";", "\t")
_MOST_JOINED_LINES = 200
_LONGEST_LINE = 64 * 1024 * 1024
csv.field_size_limit(_LONGEST_LINE)


@dataclass(slots=True)
class Table:
    """One table: its column names and its rows, which may be shorter than the header."""

    header: list[str]
    rows: list[list[str]] = field(default_factory=list)

    @property
    def identity_count(self) -> int:
        return sum(name in IDENTITY_COLUMNS for name in self.header)


@dataclass(slots=True)
class Printed:
    """Everything found in one text: tables, tool messages as (kind, text), and how many other lines there were."""

    tables: list[Table] = field(default_factory=list)
    messages: list[tuple[str, str]] = field(default_factory=list)
    other_lines: int = 0
    first_other_line: str = ""


def encoding_of(head: bytes) -> str:
    """The text encoding that the first bytes show: a byte-order mark, or the zero bytes of UTF-16."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = head[:400]
    if sample and sample.count(0) * 3 > len(sample):
        return "utf-16-le" if sample[1::2].count(0) > sample[0::2].count(0) else "utf-16-be"
    return "utf-8"


def text_lines(stream: IO[bytes], head: bytes) -> Iterator[str]:
    """Lines of a byte stream without their ends; bytes that are no text become U+FFFD."""
    with io.TextIOWrapper(stream, encoding_of(head), errors="replace", newline=None) as text:
        while line := text.readline(_LONGEST_LINE):
            yield line.rstrip("\n").lstrip("\ufeff")


def header_of(line: str) -> tuple[list[str], str] | None:
    """Column names and delimiter when the line is a table's header."""
    if "Kernel Name" not in line:
        return None
    for delimiter in _DELIMITERS:
        cells = _cells(line, delimiter)
        if cells is None or "Kernel Name" not in cells or len(cells) < 4:
            continue
        if "ID" in cells or "Process ID" in cells or "Metric Name" in cells or "Invocations" in cells:
            return cells, delimiter
    return None


def find_tables(lines: Iterable[str]) -> Printed:
    """Split the lines into tables, messages and other output."""
    printed = Printed()
    table: Table | None = None
    delimiter = ","
    for line in _whole_rows(lines):
        if message := _MESSAGE.match(line):
            printed.messages.append((message["kind"], message["text"].strip()))
            continue
        if not line.strip():
            continue
        if header := header_of(line):
            table, delimiter = Table(header[0]), header[1]
            printed.tables.append(table)
            continue
        cells = _cells(line, delimiter) if table is not None else None
        if table is not None and cells is not None and _is_row(cells, table):
            table.rows.append(cells)
        else:
            printed.other_lines += 1
            printed.first_other_line = printed.first_other_line or line[:200]
    return printed


def _is_row(cells: list[str], table: Table) -> bool:
    if len(cells) > len(table.header) + 1:
        return False
    if len(cells) < min(table.identity_count, len(table.header)):
        return False
    first = cells[0].strip()
    return first == "" or first.replace(",", "").isdigit() or table.header[0] not in {"ID", "Process ID"}


def _cells(line: str, delimiter: str) -> list[str] | None:
    try:
        rows = list(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _whole_rows(lines: Iterable[str]) -> Iterator[str]:
    """Lines, with those joined that a quoted line break cut in two."""
    pending: list[str] = []
    for line in lines:
        if pending:
            restarts = line.startswith(('"ID"', "==")) or re.match(r'"\d+","\d+",', line) is not None
            if restarts or len(pending) >= _MOST_JOINED_LINES:
                yield from pending
                pending.clear()
            else:
                pending.append(line)
                if line.count('"') % 2:
                    yield "\n".join(pending)
                    pending.clear()
                continue
        if line.startswith('"') and line.count('"') % 2:
            pending.append(line)
        else:
            yield line
    yield from pending
