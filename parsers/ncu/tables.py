"""Finds the tables in what Nsight Compute printed, between tool messages and the program's own output."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import IO, Generic, TypeVar

from parsers.model.late import dataclass, regex
from parsers.ncu.sections import PrintedSections, RowReader

IDENTITY_COLUMNS = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC", "Invocations",
    }
)  # fmt: skip
REPORTED_KINDS = frozenset({"ERROR", "WARNING"})
MAX_MESSAGES = 1000
_MESSAGE = regex(r"==(?P<kind>[A-Z]+)== ?(?P<text>.*)")
_SAVED = "Report: "
_DELIMITERS = (",", ";", "\t")
_MAX_JOINED_LINES = 200
_MAX_LINE_LENGTH = 64 * 1024 * 1024
csv.field_size_limit(_MAX_LINE_LENGTH)


R = TypeVar("R", bound=RowReader)


@dataclass(slots=True)
class Printed(Generic[R]):
    """Everything found in one text: tables, errors and warnings as (kind, text), and other lines by number.

    ``report`` is the file that the counters were saved to, where it says so.
    """

    tables: list[R] = field(default_factory=list)
    messages: list[tuple[str, str]] = field(default_factory=list)
    other_lines: int = 0
    first_other_line: str = ""
    report: str = ""


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
        while line := text.readline(_MAX_LINE_LENGTH):
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


def find_tables(lines: Iterable[str], reader_of: Callable[[list[str]], R]) -> Printed[R]:
    """Split the lines into tables, messages and other output; each table goes to a reader made for its header."""
    printed: Printed[R] = Printed()
    sections = PrintedSections(reader_of)
    table: R | None = None
    header: list[str] = []
    identity = 0
    delimiter = ","
    for line in _whole_rows(lines):
        if message := _MESSAGE.match(line):
            if message["kind"] in REPORTED_KINDS and len(printed.messages) < MAX_MESSAGES:
                printed.messages.append((message["kind"], message["text"].strip()))
            if message["text"].startswith(_SAVED):
                printed.report = message["text"].removeprefix(_SAVED).strip()
            continue
        if not line.strip():
            continue
        if found := header_of(line):
            header, delimiter = found
            identity = sum(name in IDENTITY_COLUMNS for name in header)
            table = reader_of(header)
            printed.tables.append(table)
            continue
        cells = _cells(line, delimiter) if table is not None else None
        if table is not None and cells is not None and _is_row(cells, header, identity):
            table.add(cells)
        elif not sections.take(line):
            printed.other_lines += 1
            printed.first_other_line = printed.first_other_line or line[:200]
    sections.end()
    printed.tables += sections.readers
    return printed


def _is_row(cells: list[str], header: list[str], identity: int) -> bool:
    if not identity <= len(cells) <= len(header) + 1:
        return False
    first = cells[0].strip()
    return first == "" or first.replace(",", "").isdigit() or header[0] not in {"ID", "Process ID"}


def _cells(line: str, delimiter: str) -> list[str] | None:
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _whole_rows(lines: Iterable[str]) -> Iterator[str]:
    """Lines, with those joined that a quoted line break cut in two."""
    pending: list[str] = []
    for line in lines:
        if pending:
            restarts = line.startswith(('"ID"', "==")) or re.match(r'"\d+","\d+",', line) is not None
            if restarts or len(pending) >= _MAX_JOINED_LINES:
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
