"""Printed results of benchmarks: nccl-tests (rccl-tests) and torch.utils.benchmark, as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from parsers.base import Source, parser
from parsers.model import (
    Effect,
    Malformed,
    Progress,
    QualityRecorder,
    ResultColumn,
    ResultTable,
    Trace,
    TraceInput,
)
from parsers.model.builder import TraceBuilder
from parsers.model.results import MOST_ROWS, Cell
from parsers.source import open_bytes
from parsers.unpacking_limit import LimitedStream

_MOST_BYTES = 64 << 20
_NCCL_HEADER = re.compile(r"^#\s+size\s+count\s+type\s+.*\bbusbw\b", re.MULTILINE)
_NCCL_NAME = re.compile(
    r"(all_reduce|all_gather|reduce_scatter|broadcast|alltoall|all_to_all|sendrecv|reduce|gather|scatter)_perf"
)
_NCCL_TRIED = re.compile(r"^#\s+Avg bus bandwidth\s*:\s*([\d.]+)", re.MULTILINE)
_TIMING = ("time", "algbw", "busbw")
_NCCL_UNITS = {"size": "B", "time": "us", "algbw": "GB/s", "busbw": "GB/s"}
_TORCH = re.compile(r"^\[-+ (?P<label>.*?) ?-+\]$", re.MULTILINE)
_TORCH_UNITS = re.compile(r"^Times are in (?P<name>\w+) \((?P<unit>\w+)\)\.", re.MULTILINE)
_MEASUREMENT = re.compile(
    r"^<torch\.utils\.benchmark\.utils\.common\.Measurement object at 0x\w+>$", re.MULTILINE
)
_MEDIAN = re.compile(r"^\s*(Median|Mean|IQR): +([\d.]+) (\w+)", re.MULTILINE)


@parser
class BenchmarkText:
    """Recognised by the header line of nccl-tests, or by what torch prints of a measurement or a comparison."""

    format: ClassVar[str] = "benchmark-text"
    accompanies: ClassVar[bool] = True
    title: ClassVar[str] = "benchmarks"
    files: ClassVar[str] = "what nccl-tests and torch.utils.benchmark print"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".log")
    priority: ClassVar[int] = 65
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        text = source.head.decode("utf-8", "replace")
        return bool(
            ("busbw" in text and _NCCL_HEADER.search(text))
            or ("<torch.utils.benchmark" in text and _MEASUREMENT.search(text))
            or ("threads: -" in text and _TORCH.search(text))
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        with open_bytes(source) as stream:
            limited = LimitedStream(stream, source, progress.part(0.0, 0.5), "reading results")
            parts, size = [], 0
            for part in iter(limited.read, b""):
                parts.append(part)
                size += len(part)
                if size > _MOST_BYTES:
                    break
        text = b"".join(parts).decode("utf-8", "replace")
        if _NCCL_HEADER.search(text):
            producer = "nccl-tests"
            builder.tables += _nccl(text, builder.quality)
        else:
            producer = "torch.utils.benchmark"
            builder.tables += [*_measurements(text), *_comparisons(text)]
        rows = sum(len(table.rows) for table in builder.tables)
        if not rows:
            raise Malformed(source.path, "These results have a header and no rows.", "Let the benchmark end.")
        builder.quality.read(rows)
        builder.quality.keep(rows)
        if limited.damage:
            builder.quality.note("cut", Effect.NOTED, "the file is cut off or damaged", limited.damage)
        builder.inputs.append(TraceInput(source.shown or str(source.path), self.format, producer))
        builder.sources.append(None)
        return builder.build(progress.part(0.5, 1.0))


def _number(text: str) -> Cell:
    try:
        return float(text)
    except ValueError:
        return None if text in ("N/A", "") else text


def _nccl(text: str, quality: QualityRecorder) -> Iterator[ResultTable]:
    """A table for each header; times out of place and in place stand in columns of their own."""
    found = _NCCL_NAME.search(text)
    name = found[1].replace("_", " ") if found else "collective"
    lines = text.splitlines()
    for place, header in enumerate(lines):
        if not _NCCL_HEADER.match(header):
            continue
        titles = header.lstrip("#").split()
        columns: list[ResultColumn] = []
        for title in titles:
            timing = title in _TIMING or title == "#wrong"
            again = any(column.name.startswith(f"{title} ") for column in columns)
            side = " in place" if again else " out of place"
            columns.append(ResultColumn(title + (side if timing else ""), _NCCL_UNITS.get(title, "")))
        rows: list[tuple[Cell, ...]] = []
        for line in lines[place + 1 :]:
            cells = line.split()
            if line.lstrip().startswith("#"):
                if rows:
                    break
                continue
            if not cells or not cells[0].isdigit():
                if rows and cells:
                    break
                continue
            if len(cells) != len(titles):
                quality.read(1)
                quality.note(
                    "row-of-another-length", Effect.QUARANTINED, "a row does not fit its header", line[:120]
                )
                continue
            rows.append(tuple(_number(cell) for cell in cells))
        average = _NCCL_TRIED.search("\n".join(lines[place:]))
        about = f", {average[1]} GB/s on average" if average else ""
        yield ResultTable(f"nccl-tests {name}{about}", tuple(columns), tuple(rows[:MOST_ROWS]))


def _measurements(text: str) -> Iterator[ResultTable]:
    """All single measurements as one table."""
    parts = _MEASUREMENT.split(text)[1:]
    rows: list[tuple[Cell, ...]] = []
    for part in parts[:MOST_ROWS]:
        block = part.split("\n\n", 1)[0]
        named = [line.strip() for line in block.splitlines() if line.strip()]
        described = []
        for line in named:
            if _MEDIAN.match(line) or "measurement" in line:
                break
            described.append(line)
        times = {match[1]: (_number(match[2]), match[3]) for match in _MEDIAN.finditer(block)}
        value, unit = times.get("Median", times.get("Mean", (None, "")))
        spread, _ = times.get("IQR", (None, ""))
        rows.append((" ".join(described) or None, value, spread, unit or None))
    if rows:
        columns = (
            ResultColumn("measured"),
            ResultColumn("median"),
            ResultColumn("IQR"),
            ResultColumn("unit"),
        )
        yield ResultTable("torch.utils.benchmark, measurements", columns, tuple(rows))


def _comparisons(text: str) -> Iterator[ResultTable]:
    """Each printed comparison as a table."""
    found = list(_TORCH.finditer(text))
    for place, match in enumerate(found):
        end = found[place + 1].start() if place + 1 < len(found) else len(text)
        lines = text[match.end() : end].splitlines()
        unit = units["unit"] if (units := _TORCH_UNITS.search(text[match.end() : end])) else ""
        header: list[str] = []
        threads = ""
        rows: list[tuple[Cell, ...]] = []
        for line in lines:
            if "threads: -" in line:
                threads = line.split(" ", 1)[0]
            elif "|" in line:
                cells = [cell.strip() for cell in line.split("|")]
                if not header:
                    header = cells[1:]
                elif len(cells) == len(header) + 1:
                    rows.append((cells[0] or None, threads or None, *(_number(cell) for cell in cells[1:])))
        if header and rows:
            columns = (
                ResultColumn("case"),
                ResultColumn("threads"),
                *(ResultColumn(name or "-", unit) for name in header),
            )
            yield ResultTable(
                f"torch.utils.benchmark {match['label']}".strip(), columns, tuple(rows[:MOST_ROWS])
            )
