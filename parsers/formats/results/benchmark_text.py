"""Printed results of benchmarks: nccl-tests (rccl-tests) and torch.utils.benchmark, as tables."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, takewhile

from parsers.files.base import Accompanying, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Effect, Malformed, Progress, QualityRecorder, ResultColumn, ResultTable, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.results import MAX_ROWS, Cell, titled
from parsers.nccl_messages import nccl_tables

_NCCL_NAME = regex(
    r"(all_reduce|all_gather|reduce_scatter|broadcast|alltoall|all_to_all|sendrecv|reduce|gather|scatter)_perf"
)
# with NCCL_DEBUG set, each line behind the name of its computer
_NCCL_LOG = r":\d{1,9}:\d{1,9} \[\d{1,4}\] NCCL [A-Z]{1,9} [^\n]*\n"
_HOST = regex(rf"^([\w.-]{{1,80}}){_NCCL_LOG}", re.MULTILINE)
_ANY_HOST = r"[A-Za-z][\w.-]{0,80}"
_MAX_HOSTS = 200
# of mpirun --tag-output before each part of a line, and of srun --label or mpiexec --line-label before each line
_TAG = regex(
    r"\[\d{1,5},\d{1,7}\]<std(?:out|err)>:|^(?:[A-Za-z][\w.-]{0,80} )? {0,6}\d{1,6}: (?=[ #\w])", re.MULTILINE
)
_NCCL_AVERAGE = "Avg bus bandwidth"
_TIMING = ("time", "algbw", "busbw")
_MAYBE_BLANK = ("redop", "root")  # a collective that reduces nothing, or has no root, leaves them empty
_NCCL_UNITS = {"size": "B", "time": "us", "algbw": "GB/s", "busbw": "GB/s"}
_TORCH_UNITS = regex(r"Times are in \w++ \((?P<unit>\w++)\)\.")
_MEASUREMENT = regex(r"<torch\.utils\.benchmark\.utils\.common\.Measurement object at 0x\w++>")
_VALUES = ("Median:", "Mean:", "IQR:")


@parser
class BenchmarkText(Accompanying):
    """Recognised by the header line of nccl-tests, or by what torch prints of a measurement or a comparison."""

    format = "benchmark-text"
    title = "benchmarks"
    files = "output of nccl-tests and torch.utils.benchmark"
    suffixes = (".txt", ".log")
    priority = 65
    version = 7

    def recognises(self, source: Source) -> bool:
        text = source.head.decode("utf-8", "replace")
        printed = [
            _TAG.sub("", each.decode("utf-8", "replace")) for each in source.printed if b"busbw" in each
        ]
        return (
            any(_is_nccl_header(line) for each in printed for line in each.split("\n"))
            or ("<torch.utils.benchmark" in text and any(map(_MEASUREMENT.fullmatch, text.split("\n"))))
            or ("threads: -" in text and any(_label_of(line) is not None for line in text.split("\n")))
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        with open_bytes(source) as stream:
            limited = LimitedStream(stream, source, progress.part(0.0, 0.5), "reading results")
            whole = limited.whole("Keep its first tables.").decode("utf-8", "replace")
        text = _without_log(_TAG.sub("", whole))
        lines = text.splitlines()
        headers = [index for index, line in enumerate(lines) if _is_nccl_header(line)]
        if headers:
            producer = "nccl-tests"
            builder.tables += nccl_tables(whole, _nccl(text, lines, headers, builder.quality))
        else:
            producer = "torch.utils.benchmark"
            builder.tables += [*_measurements(lines), *_comparisons(lines)]
        rows = sum(len(table.rows) for table in builder.tables)
        if not rows:
            raise Malformed(
                source.path, "These results have a header but no rows.", "Let the benchmark finish."
            )
        builder.quality.read(rows)
        builder.quality.keep(rows)
        builder.quality.cut(limited.damage)
        builder.came_from(source.name, self.format, producer)
        return builder.build(progress.part(0.5, 1.0))


def _number(text: str) -> Cell:
    try:
        return float(text)
    except ValueError:
        return None if text in ("N/A", "") else text


def _is_nccl_header(line: str) -> bool:
    """Whether this is "#  size  count  type  redop ... busbw ..."."""
    words = line[1:].split() if line.startswith("#") and "busbw" in line else []
    return words[:3] == ["size", "count", "type"] and "busbw" in words


def _average(line: str) -> str:
    """The bus bandwidth that "# Avg bus bandwidth    : 12.3" states; empty for other lines."""
    words, colon, value = line[1:].partition(":")
    stated = value.split()
    is_average = line.startswith("#") and colon and words.strip() == _NCCL_AVERAGE
    return stated[0] if is_average and stated and stated[0].replace(".", "").isdigit() else ""


def _with_blanks(cells: list[str], titles: list[str]) -> list[str]:
    """A row's cells with the empty ones, which separate no words."""
    blank = [place for place, title in enumerate(titles) if title in _MAYBE_BLANK]
    if len(cells) + len(blank) != len(titles):
        return cells
    filled = iter(cells)
    return ["" if place in blank else next(filled) for place in range(len(titles))]


def _without_log(text: str) -> str:
    """What is left without the log of NCCL, into which rows are printed part by part: "-1node:7:7 [0] NCCL INFO"."""
    times = Counter(each[1] for each in _HOST.finditer(text)).most_common(_MAX_HOSTS)
    hosts = [  # one that ends in another's name, and is rarer, stands for a line that was printed into a row
        re.escape(host)
        for host, count in times
        if not any(host != other and host.endswith(other) and often > count for other, often in times)
    ]
    return re.sub(rf"(?:{'|'.join(hosts) or _ANY_HOST}){_NCCL_LOG}", "", text)


def _names(text: str, lines: list[str], headers: list[int]) -> Iterator[str]:
    """Of each header, what was last said to be measured before it, else what is said at all."""
    said = [(place, found[1]) for place, line in enumerate(lines) if (found := _NCCL_NAME.search(line))]
    for header in headers:
        before = bisect_left(said, (header, "")) - 1
        name = said[max(before, 0)][1] if said else "collective"
        yield name.replace("_", " ")


def _nccl(text: str, lines: list[str], headers: list[int], quality: QualityRecorder) -> Iterator[ResultTable]:
    """A table for each header; times out of place and in place stand in columns of their own."""
    names = _names(text, lines, headers)
    averages = [(place, value) for place, line in enumerate(lines) if (value := _average(line))]
    for name, (place, until) in zip(names, pairwise([*headers, len(lines)]), strict=True):
        titles = lines[place].lstrip("#").split()
        columns: list[ResultColumn] = []
        seen: set[str] = set()
        for title in titles:
            timing = title in _TIMING or title == "#wrong"
            side = " in place" if title in seen else " out of place"
            seen.add(title)
            columns.append(ResultColumn(title + (side if timing else ""), _NCCL_UNITS.get(title, "")))
        rows: list[tuple[Cell, ...]] = []
        for line in lines[place + 1 : until]:
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
                cells = _with_blanks(cells, titles)
            if len(cells) != len(titles):
                quality.read(1)
                quality.note(
                    "row-of-another-length", Effect.QUARANTINED, "a row does not fit its header", line[:120]
                )
                continue
            rows.append(tuple(_number(cell) for cell in cells))
        following = bisect_left(averages, (place, ""))
        about = f", {averages[following][1]} GB/s on average" if following < len(averages) else ""
        about += _most(columns, rows)
        yield ResultTable(f"nccl-tests {name}{about}", tuple(columns), tuple(rows[:MAX_ROWS]))


def _most(columns: list[ResultColumn], rows: list[tuple[Cell, ...]]) -> str:
    """What the largest messages reach, which the average over all sizes hides; empty of a single size."""
    buses = [place for place, column in enumerate(columns) if column.name.startswith("busbw")]
    reached = [cell for row in rows for place in buses if isinstance(cell := row[place], float)]
    return f", at most {max(reached):.4g}" if len(rows) > 1 and reached else ""


def _value(line: str) -> tuple[str, tuple[Cell, str]] | None:
    """What "Median: 3.05 us" says, and in which unit; None for other lines."""
    words = line.split()
    if len(words) < 3 or words[0] not in _VALUES or not words[1].replace(".", "").isdigit():
        return None
    return words[0][:-1], (_number(words[1]), words[2])


def _measurements(lines: list[str]) -> Iterator[ResultTable]:
    starts = [place for place, line in enumerate(lines) if _MEASUREMENT.fullmatch(line)][:MAX_ROWS]
    rows: list[tuple[Cell, ...]] = []
    for place, until in pairwise([*starts, len(lines)]):
        block = list(takewhile(bool, lines[place + 1 : until]))
        named = [line.strip() for line in block if line.strip()]
        described = list(takewhile(lambda line: not _value(line) and "measurement" not in line, named))
        times = dict(filter(None, map(_value, block)))
        value, unit = times.get("Median", times.get("Mean", (None, "")))
        spread, _ = times.get("IQR", (None, ""))
        rows.append((" ".join(described) or None, value, spread, unit or None))
    if rows:
        columns = titled("measured", "median", "IQR", "unit")
        yield ResultTable("torch.utils.benchmark, measurements", columns, tuple(rows))


def _label_of(line: str) -> str | None:
    """What a comparison is of, which stands between dashes: "[---- label ----]"; None for other lines."""
    if not (line.startswith("[-") and line.endswith("-]")):
        return None
    label = line[1:-1].lstrip("-")
    return label.rstrip("-").strip(" ") if label.startswith(" ") else None


def _comparisons(lines: list[str]) -> Iterator[ResultTable]:
    found = [(place, label) for place, line in enumerate(lines) if (label := _label_of(line)) is not None]
    for (place, label), (until, _) in pairwise([*found, (len(lines), "")]):
        told = lines[place + 1 : until]
        unit = next((units["unit"] for line in told if (units := _TORCH_UNITS.match(line))), "")
        header: list[str] = []
        threads = ""
        rows: list[tuple[Cell, ...]] = []
        for line in told:
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
            yield ResultTable(f"torch.utils.benchmark {label}".strip(), columns, tuple(rows[:MAX_ROWS]))
