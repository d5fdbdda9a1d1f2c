"""Reads a comma-separated table as columns: integers, numbers and texts, however many rows there are."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np

from parsers.files.base import Source
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import BYTES_AT_ONCE, LimitedStream
from parsers.model import BOOL, F64, I64, Effect, Progress, QualityRecorder
from parsers.model.arrays import ABSENT, I32, per_value, without
from parsers.model.attributes import MEMORY_KINDS, Attribute, CopyKind, MemoryKind
from parsers.model.builder import TraceBuilder
from parsers.model.errors import Malformed
from parsers.model.lanes import Device, EventKind, Lane, LaneKind
from parsers.model.late import dataclass, regex
from parsers.model.names.collectives import collective_of, is_collective_kernel
from parsers.statements import state_shape

_ANY_BYTES = "latin-1"  # maps every byte to a character and back, so no cell can be undecodable
_INTEGER = r"^\s*[-+]?[0-9]{1,18}\s*$"
_NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?\s*$"
_AMOUNT = rf"{_NUMBER[:-4]}(?:%|ns|us|ms|s)?\s*$"
_DECIMAL = r"^\s*(?P<whole>[0-9]{1,18})(?:\.(?P<part>[0-9]{0,12}))?\s*$"
_NAMES = ("name", "kernelname")
_SHARE = "time%"
_MAX_PARTED = 100_000
_OTHER = regex(r"[^a-z0-9%]+")


def plain(name: str) -> str:
    """A column's name without case and punctuation: "Start_Timestamp" and "start timestamp" are one."""
    return _OTHER.sub("", name.lower())


def header_of(head: bytes) -> tuple[str, ...]:
    """The names in the first line; empty where it is no line of a table."""
    text = head.lstrip(b"\xef\xbb\xbf")
    if text.startswith((b"{", b"[")):
        return ()  # JSON, whose first line may be all of it
    line, end, _ = text.partition(b"\n")
    if not end and len(head) < 2:
        return ()
    names = _cells(line.decode("utf-8", "replace").rstrip("\r"))
    return tuple(names) if len(names) > 1 and all(name.isprintable() for name in names) else ()


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    except csv.Error:
        return []


@dataclass(slots=True)
class CsvTable:
    """``columns`` maps the plain name of each column to its cells; ``header`` has the names as written."""

    header: tuple[str, ...]
    columns: dict[str, Any]  # Arrow string arrays, a character for each byte
    length: int

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def first(self, names: Iterable[str]) -> str:
        """The first of these plain names that is a column; "" without one."""
        return next((name for name in names if name in self.columns), "")

    def integers(self, *names: str) -> I64:
        """The first of these columns as int64; ``ABSENT`` where a cell is no integer or no column has such a name."""
        import pyarrow as pa
        import pyarrow.compute as pc

        name = self.first(names)
        if not name:
            return np.full(self.length, ABSENT, np.int64)
        text = self.columns[name]
        good = pc.match_substring_regex(text, _INTEGER)
        numbers = pc.cast(pc.utf8_trim_whitespace(pc.if_else(good, text, pa.scalar("0"))), pa.int64())
        return np.where(good.to_numpy(zero_copy_only=False), numbers.to_numpy(), ABSENT).astype(np.int64)

    def numbers(self, name: str) -> F64:
        """A column as float64; nan where a cell is no number."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text = self.columns[name]
        good = pc.match_substring_regex(text, _NUMBER)
        values = pc.cast(pc.utf8_trim_whitespace(pc.if_else(good, text, pa.scalar("0"))), pa.float64())
        return np.where(good.to_numpy(zero_copy_only=False), values.to_numpy(), np.nan)

    def scaled(self, name: str, size: int) -> I64:
        """Decimal numbers in units of ``size`` as whole numbers, to the last digit; ``ABSENT`` for other cells."""
        import pyarrow as pa
        import pyarrow.compute as pc

        parts = pc.extract_regex(self.columns[name], _DECIMAL)
        whole, part = (pc.fill_null(parts.field(place), "") for place in (0, 1))
        digits = pc.utf8_slice_codeunits(pc.utf8_rpad(part, 9, "0"), 0, 9)
        good = pc.greater(pc.binary_length(whole), 0).to_numpy(zero_copy_only=False)
        ones = pc.cast(pc.if_else(pc.equal(whole, ""), "0", whole), pa.int64()).to_numpy()
        rest = pc.cast(digits, pa.int64()).to_numpy()
        fits = good & (ones < (1 << 62) // size)
        return np.where(fits, np.where(fits, ones, 0) * size + rest * size // 10**9, ABSENT)

    def texts(self, *names: str) -> tuple[list[str], I64]:
        """The distinct cells of the first of these columns, and for each row the place of its cell among them."""
        name = self.first(names)
        if not name:
            return [""], np.zeros(self.length, np.int64)
        coded = self.columns[name].dictionary_encode()
        cells = [_decoded(cell) for cell in coded.dictionary.to_pylist()]
        return cells, coded.indices.to_numpy().astype(np.int64)

    def kept(self, rows: BOOL) -> CsvTable:
        """The table with only these rows."""
        import pyarrow as pa

        chosen = pa.array(rows)
        columns = {name: cells.filter(chosen) for name, cells in self.columns.items()}
        return CsvTable(self.header, columns, int(np.count_nonzero(rows)))


def _decoded(cell: str) -> str:
    return cell.encode(_ANY_BYTES, "replace").decode("utf-8", "replace")


def read_csv(source: Source, quality: QualityRecorder, progress: Progress, before: int = 0) -> CsvTable:
    """All rows of a table with a header, ``before`` of which are so many lines.

    Rows with too many or too few cells are counted as quarantined.
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    header = header_of(source.head.split(b"\n", before)[-1])
    names = [f"{number}" for number in range(len(header))]
    begins_with_name = plain("".join(header[:1])) in _NAMES
    ends_with_name = plain("".join(header[:1])) == _SHARE and plain(header[-1]) in _NAMES  # a summary
    may_part = begins_with_name or ends_with_name
    bad = 0
    skipped: list[int] = []
    parted: list[tuple[int, list[str]]] = []  # rows that are whole again, by their numbers

    def part(row: Any) -> str:
        nonlocal bad
        bad += 1
        if may_part and len(skipped) < _MAX_PARTED:
            skipped.append(row.number)
            if cells := _with_commas(row.text, len(header), begins_with_name):
                parted.append((row.number, cells))
        return "skip"

    batches: list[Any] = []
    with open_bytes(source) as stream:
        watched = LimitedStream(stream, source, progress, "reading the table")
        try:
            reader = pa_csv.open_csv(
                pa.PythonFile(cast(Any, watched), mode="r"),
                read_options=pa_csv.ReadOptions(
                    use_threads=not may_part,  # else rows have no numbers
                    block_size=BYTES_AT_ONCE,
                    skip_rows=1 + before,
                    column_names=names,
                    encoding=_ANY_BYTES,
                ),
                parse_options=pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=part),
                convert_options=pa_csv.ConvertOptions(
                    column_types={name: pa.string() for name in names}, strings_can_be_null=False
                ),
            )
            for batch in reader:
                progress.step(0.9, "reading the table")
                batches.append(batch)
        except pa.ArrowInvalid as error:
            watched.damage = watched.damage or str(error).splitlines()[0]
    quality.note(
        "row-of-another-length",
        Effect.QUARANTINED,
        "a row has more or fewer cells than the header",
        "",
        bad - len(parted),
    )
    quality.read(bad - len(parted))
    if watched.damage:
        quality.note(
            "cut", Effect.NOTED, "the table is damaged or cut off; what comes before is shown", watched.damage
        )
    schema = pa.schema([(name, pa.string()) for name in names])
    table = pa.Table.from_batches(batches, schema)
    if parted:
        table = _put_back(table, skipped, parted, 2 + before)
    table = table.combine_chunks()
    columns = {
        plain(title): _one_array(table.column(place)) for place, title in reversed(list(enumerate(header)))
    }
    return CsvTable(header, columns, table.num_rows)


def _with_commas(text: str, count: int, at_first: bool) -> list[str]:
    """A row's cells, if the first or last is a name without quotes that holds commas, the others numbers; else none."""
    cells = [] if '"' in text else (text.rsplit if at_first else text.split)(",", count - 1)
    others = cells[1:] if at_first else cells[:-1]
    return cells if len(cells) == count and all(re.match(_AMOUNT, cell) for cell in others) else []


def _put_back(
    table: Any, skipped: Sequence[int], rows: Sequence[tuple[int, Sequence[str]]], first: int
) -> Any:
    """The table with some of the skipped rows at their places, in a file whose first row has the number ``first``."""
    import pyarrow as pa

    numbers, cells = zip(*rows, strict=True)
    arrays = [pa.array(column, pa.string()) for column in zip(*cells, strict=True)]
    added = pa.Table.from_arrays(arrays, schema=table.schema)
    of_table = without(np.arange(first, first + table.num_rows + len(skipped)), skipped)[: table.num_rows]
    order = np.argsort(np.concatenate((of_table, np.array(numbers, np.int64))), kind="stable")
    return pa.concat_tables([table, added]).take(pa.array(order))


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> CsvTable:
    """A table of cells that were read elsewhere, a character for each byte; all rows are as long as the header."""
    import pyarrow as pa

    count = len(rows)
    cells = pa.array(list(chain.from_iterable(zip(*rows, strict=True))), pa.string())
    columns = {
        plain(title): cells.slice(place * count, count) for place, title in reversed(list(enumerate(header)))
    }
    return CsvTable(tuple(header), columns, count)


def stacked(name: str, columns: Sequence[Any]) -> CsvTable:
    """Columns of tables, one below the other, as the only column of one table."""
    import pyarrow as pa

    cells = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    return CsvTable((name,), {name: cells}, len(cells))


def _one_array(column: Any) -> Any:
    import pyarrow as pa

    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def has_columns(head: bytes, *wanted: Sequence[str]) -> bool:
    """Whether the first line names, for each group of plain names, at least one of them."""
    names = {plain(name) for name in header_of(head)}
    return bool(names) and all(names.intersection(group) for group in wanted)


_COPY = regex(r"\[(CUDA memcpy|(?:CUDA )?Unified Memory memcpy) (\w+?)(?:-to-|to)(\w+)\]", re.IGNORECASE)
_NO_WORK = regex(r"\[Unified Memory (?!memcpy)", re.IGNORECASE)  # page faults, thrashing
_MEMSET = regex(r"\[CUDA memset", re.IGNORECASE)
_DEVICE = regex(r"^(.*?) ?\((\d{1,5})\)$")


def add_operations(table: CsvTable, builder: TraceBuilder, path: Path, how_to_see_calls: str) -> None:
    """Add every row that has a time; raises ``Malformed`` where none has. ``how_to_see_calls`` is noted."""
    builder.quality.read(table.length)
    start, length = table.integers("startns"), table.integers("durationns")
    timed = (start != ABSENT) & (length != ABSENT) & (length >= 0)
    texts, name = table.texts("name")
    works = np.array([_NO_WORK.match(text) is None for text in texts], bool)[name]
    for kind, reason, left_out in (
        ("no-work", "a row is of page faults or thrashing, which are no work of the GPU", ~works),
        ("no-time", "a row has no start or no duration", works & ~timed),
    ):
        builder.quality.note(kind, Effect.QUARANTINED, reason, "", int(np.count_nonzero(left_out)))
    rows = np.flatnonzero(works & timed)
    if not len(rows):
        raise Malformed(path, "The table has a header but no operations.", "Write it again.")
    kinds = np.array([_kind_of(text).value for text in texts], np.uint8)
    events = builder.add(
        start[rows],
        start[rows] + length[rows],
        np.array([builder.string(text) for text in texts], np.int32)[name[rows]],
        _lanes(table, builder)[rows],
        kinds[name[rows]],
        rows,
    )
    _describe(table, builder, texts, name, rows, events)
    builder.quality.note(
        "no-calls", Effect.NOTED, f"This table lists what the GPU ran, but no CPU calls. {how_to_see_calls}"
    )


def _kind_of(name: str) -> EventKind:
    if _COPY.match(name):
        return EventKind.MEMCPY
    return EventKind.MEMSET if _MEMSET.match(name) else EventKind.KERNEL


def _lanes(table: CsvTable, builder: TraceBuilder) -> I32:
    """The lane of each row: its device is "NVIDIA A100 (0)", its stream a number."""
    titles, device = table.texts("device")
    stream = np.maximum(table.integers("strm"), -1)

    def lane_of(pair: list[int]) -> int:
        title, queue = pair
        found = _DEVICE.match(titles[title])
        name, number = (found[1], int(found[2])) if found else (titles[title], title)
        gpu = builder.device(Device(number, name))
        return builder.lane(
            Lane(LaneKind.GPU_STREAM, f"GPU {number} stream {queue}", device=gpu, stream=queue)
        )

    return per_value(np.stack((device, stream), axis=1), lane_of, np.int32)


def _describe(
    table: CsvTable, builder: TraceBuilder, texts: list[str], name: I64, rows: I64, events: I64
) -> None:
    """Grids, registers, sizes of copies, where these begin and end, and what collectives do."""
    for size, prefix in ((Attribute.GRID, "grd"), (Attribute.BLOCK, "blk")):
        sizes = np.stack([table.integers(f"{prefix}{axis}")[rows] for axis in "xyz"], axis=1)
        stated = (sizes > 0).all(axis=1)
        state_shape(builder, size, events[stated], sizes[stated])
    registers = table.integers("regtrd")[rows]
    builder.attribute(Attribute.REGISTERS, events[registers > 0], registers[registers > 0])
    size_mb = table.numbers("bytesmb")[rows] if "bytesmb" in table else np.full(len(rows), np.nan)
    told = (size_mb >= 0) & (size_mb < 1e9)
    builder.attribute(Attribute.BYTES, events[told], np.round(size_mb[told] * 1e6).astype(np.int64))
    copies = np.array([_direction(text).value for text in texts], np.int64)[name[rows]]
    moves = np.array([_COPY.match(text) is not None for text in texts], bool)[name[rows]]
    builder.attribute(Attribute.COPY_KIND, events[moves], copies[moves])
    for attribute, column in ((Attribute.SOURCE_MEMORY, "srcmemkd"), (Attribute.TARGET_MEMORY, "dstmemkd")):
        ends, end = table.texts(column)
        known = [MEMORY_KINDS.get(text.strip().lower(), MemoryKind.UNKNOWN).value for text in ends]
        builder.attribute(attribute, events[moves], np.array(known, np.int64)[end[rows]][moves])
    spoken = [collective_of(text) if is_collective_kernel(text) else "" for text in texts]
    collective = np.array([builder.string(text) if text else -1 for text in spoken], np.int64)[name[rows]]
    builder.attribute(Attribute.COLLECTIVE, events[collective >= 0], collective[collective >= 0])


def _direction(name: str) -> CopyKind:
    found = _COPY.match(name)
    return CopyKind.between(found[2], found[3]) if found is not None else CopyKind.UNKNOWN


def renamed(table: CsvTable, names: Mapping[str, str], made: Mapping[str, Any]) -> CsvTable:
    """The columns that ``names`` calls as nsys stats does, by their own names, and those ``made`` of them."""
    kept = {ours: table.columns[theirs] for ours, theirs in names.items() if theirs in table}
    return replace(table, columns={**kept, **made})


def in_words(numbers: Any) -> Any:
    """Integers as a column of text; empty where one is absent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(numbers == ABSENT), "", pc.cast(pa.array(numbers), pa.string()))
