"""Device logs as counters: ``nvidia-smi``, its ``dmon`` and ``--query-gpu``, ``dcgmi dmon`` and ``tegrastats``."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import IO

from parsers.files.base import Accompanying, Source, parser
from parsers.files.source import READ_ERRORS, open_bytes
from parsers.files.texts import decoded
from parsers.files.unpacking_limit import UnpackingLimit
from parsers.model import Counter, Effect, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.units import NS_PER_S
from parsers.ranks.log_alignment import ASSUMED_ZONE
from parsers.smi.clock import day_comes_first, local_ns, moment_of, zone_of
from parsers.smi.columns import (
    Quantity,
    columns_of,
    columns_of_scripts,
    dcgm_quantity,
    dmon_quantity,
    query_quantity,
)
from parsers.smi.printed import (
    Reading,
    begins_table,
    gpu_of_row,
    printed_at,
    readings_of_row,
    readings_of_tegrastats,
    time_of_tegrastats,
)
from parsers.smi.readings import Readings

MAX_LINE_LENGTH = 64 * 1024
_LINES_AT_ONCE = 4096
_DMON = regex(r"^#\s*(date,?\s+)?(time,?\s+)?gpu([\s,]+[a-z][\w/]*)+[\s,]*$", re.IGNORECASE)
_DCGM = regex(r"^#\s*Entity\s+[A-Z]\w+", re.IGNORECASE)
_QUERY = regex(r"^(\w[\w.]*( \[[^\]]*\])?)(, ?\w[\w.]*( \[[^\]]*\])?)+$")
_QUERY_FIELDS = regex(
    r"(^|, ?)(utilization\.(gpu|memory)|memory\.(used|free|total)|power\.draw|temperature\.gpu|clocks\.|pstate|"
    r"fan\.speed)"
)
_ONE_FIELD = regex(r"(utilization\.(gpu|memory)|memory\.(used|free)|power\.draw) \[(%|MiB|W)\]")
_GPU = regex(r"[0-9]{1,5}")
_SECONDS = regex(r"\d{1,9}(?:\.\d{1,9})?")
_HAS_TIME = regex(r"timestamp|elapsed", re.IGNORECASE)
_SPLIT = regex(r"[\s,]+")


@parser
class DeviceLog(Accompanying):
    """Recognised by the header line of one of them, and by the first words of the lines of tegrastats."""

    format = "smi-log"
    title = "nvidia-smi, dcgmi and tegrastats"
    files = "printed tables, dmon, query logs and tegrastats, as counters"
    suffixes = (".csv", ".txt", ".log")
    priority = 70
    version = 7

    def recognises(self, source: Source) -> bool:
        lines = decoded(source.head).splitlines()[:200]
        return any(map(_kind_of, lines)) or bool(lines and columns_of(_cells(lines[0])))

    def read(self, source: Source, progress: Progress) -> Trace:
        log = _Log(Readings(), day_comes_first(decoded(source.head)))
        cut = ""
        try:
            with open_bytes(source) as stream:
                limit = UnpackingLimit(source)
                for index, line in enumerate(_lines(stream, source.head), 1):
                    limit.add(len(line))
                    if index % _LINES_AT_ONCE == 1:
                        progress.step(limit.share * 0.9, "reading the device log")
                    log.line(line, index)
        except READ_ERRORS as error:
            cut = str(error) or type(error).__name__
        counters = log.readings.counters()
        if not counters and log.readings.unreadable:
            raise Malformed(
                source.path,
                f"None of the log's lines fits its header. The first is {log.readings.example}",
                "Let nvidia-smi write it: nvidia-smi --query-gpu=timestamp,index,utilization.gpu --format=csv -l 1",
            )
        if not counters:
            raise Malformed(
                source.path,
                "The log has a header but no readings.",
                "Let nvidia-smi run for a few seconds: nvidia-smi dmon -s pucvmet -o DT",
            )
        builder = _trace(source, log, counters)
        if cut:
            reason = "The log is cut off or damaged; everything before that point was read."
            builder.quality.note("cut-file", Effect.NOTED, reason, cut)
        return builder.build(progress.part(0.9, 1.0))


def _trace(source: Source, log: _Log, counters: list[Counter]) -> TraceBuilder:
    builder = TraceBuilder()
    log.readings.account(builder.quality, "Lines that do not fit the header were left out.")
    if log.guessed_months:
        builder.quality.note(
            "order of dates",
            Effect.NOTED,
            "The log's dates end with the year, and may start with the day or the month: the month was assumed.",
        )
    if log.headerless:
        reason = "The log has no header, so its columns were identified by their units."
        builder.quality.note("no-header", Effect.NOTED, reason)
    if log.zoned:
        builder.epoch_ns = 0
    elif log.dated:
        zone, known = zone_of(source.path, max(int(each.time[-1]) for each in counters))
        offset = zone.utcoffset(None)
        builder.epoch_ns = -int(offset.total_seconds()) * NS_PER_S
        how = "from the time when the file was last written" if known else "from this computer's clock"
        builder.quality.note(
            "time zone" if known else ASSUMED_ZONE,
            Effect.NOTED,
            f"The log's times have no time zone; {zone} was assumed, {how}.",
        )
    else:
        builder.quality.note(
            "no date",
            Effect.NOTED,
            "The log contains no dates and times, so it has its own time axis, with the tools' usual interval of 1 s."
            if not log.timed
            else "The log contains no dates, so it has its own time axis.",
        )
    builder.counters += counters
    builder.came_from(str(source.path), DeviceLog.format, log.producer)
    return builder


class _Log:
    """Reads lines in order; a header may come again and again, and may change."""

    def __init__(self, readings: Readings, day_first: bool | None) -> None:
        self.readings = readings
        self.guessed_months = False
        self._day_first = day_first
        self.producer = "nvidia-smi"
        self.dated = False
        self.timed = False
        self.zoned = False
        self.headerless = False
        self._kind = ""
        self._columns: list[str] = []
        self._quantities: dict[str, Quantity] = {}
        self._gpu_of: dict[str, int] = {}
        self._samples: dict[str, int] = {}
        self._printed: tuple[str, str] = ("", "")
        self._row_of: int | None = None

    def line(self, line: str, place: int) -> None:
        if not line.strip():
            return
        if (printed := printed_at(line)) is not None:
            self._printed = printed
        elif kind := _kind_of(line):
            self._header(kind, line)
            if kind == "tegrastats":
                self._tegrastats_line(line, place)
        elif self._kind == "table":
            self._table_line(line)
        elif line.lstrip().startswith("#"):
            self._units(line)
        elif not self._kind and (columns := columns_of(_cells(line))):
            self.headerless = True
            self._kind, self._columns = "query", [name or f"column {at}" for at, name in enumerate(columns)]
            self._quantities = {name: query_quantity(name) for name in columns if name}
            self._query_line(line, place)
        elif self._kind == "query":
            self._query_line(line, place)
        elif self._kind == "dmon":
            self._dmon_line(line, place)
        elif self._kind == "dcgm":
            self._dcgm_line(line, place)

    def _header(self, kind: str, line: str) -> None:
        if kind == "table" and self._kind not in ("", kind):
            return  # one moment inside a log of many
        if self._kind == "table" and kind != self._kind:
            self.readings, self.timed, self.dated = Readings(), False, False
            self._samples.clear()
        self._kind = kind
        if kind in ("table", "tegrastats"):
            self.producer = "nvidia-smi" if kind == "table" else kind
            return
        if kind == "query":
            cells = _cells(line)
            self._columns = columns_of_scripts(cells) or [cell.strip() for cell in cells]
            self._quantities = {column: query_quantity(column) for column in self._columns}
            return
        self._columns = _SPLIT.split(line.strip().lstrip("#").strip())
        if kind == "dcgm":
            self.producer = "dcgmi"
            self._quantities = {column: dcgm_quantity(column) for column in self._columns[1:]}
        else:
            self._quantities = {column: dmon_quantity(column, "") for column in self._columns}

    def _units(self, line: str) -> None:
        units = _SPLIT.split(line.strip().lstrip("#").strip())
        if self._kind == "dmon" and len(units) == len(self._columns):
            self._quantities = {
                column: dmon_quantity(column, unit) for column, unit in zip(self._columns, units, strict=True)
            }

    def _dmon_line(self, line: str, place: int) -> None:
        cells = _SPLIT.split(line.strip())
        if len(cells) != len(self._columns):
            self.readings.unusable(line, place)
            return
        row = {column.lower(): cell for column, cell in zip(self._columns, cells, strict=True)}
        date, time, gpu = row.pop("date", ""), row.pop("time", ""), row.pop("gpu", "")
        moment = self._moment(date, time, gpu)
        if moment is None or not _GPU.fullmatch(gpu):
            self.readings.unusable(line, place)
            return
        self.readings.lines += 1
        for column in self._columns:
            if column.lower() in row:
                self.readings.add(int(gpu), column, self._quantities[column], moment, row[column.lower()])

    def _dcgm_line(self, line: str, place: int) -> None:
        if (match := re.match(r"\s*(GPU|GPU-I|GPU-CI|CPU|Switch)\s+(\d{1,5})\s+(.*)$", line)) is None:
            if line.strip().upper() not in {"ID"}:
                self.readings.unusable(line, place)
            return
        cells = match[3].split()
        if match[1] != "GPU" or len(cells) != len(self._columns) - 1:
            self.readings.unusable(line, place)
            return
        moment = self._moment("", "", match[2])
        self.readings.lines += 1
        for column, cell in zip(self._columns[1:], cells, strict=True):
            self.readings.add(int(match[2]), column, self._quantities[column], moment or 0, cell)

    def _table_line(self, line: str) -> None:
        """One row of two; all other lines are the box, its header and the processes."""
        gpu = gpu_of_row(line)
        readings = [] if self._row_of is None else list(readings_of_row(line))
        if readings and self._row_of is not None:
            moment = self._moment(*self._printed, str(self._row_of))
            self._keep(self._row_of, moment or 0, readings)
        self._row_of = gpu

    def _tegrastats_line(self, line: str, place: int) -> None:
        date, time = time_of_tegrastats(line) or ("", "")
        moment = self._moment(date, time, "0")
        if moment is None:
            self.readings.unusable(line, place)
            return
        self._keep(0, moment, list(readings_of_tegrastats(line)))

    def _keep(self, gpu: int, moment: int, readings: list[Reading]) -> None:
        self.readings.lines += 1
        for each in readings:
            self.readings.add(gpu, each.column, each.quantity, moment, each.cell)

    def _query_line(self, line: str, place: int) -> None:
        cells = _cells(line)
        if len(cells) != len(self._columns):
            self.readings.unusable(line, place)
            return
        row = dict(zip(self._columns, cells, strict=True))
        gpu = self._gpu(row)
        if stated := row.get("timestamp", "").strip():
            moment, zoned = moment_of(stated, bool(self._day_first))
            self.guessed_months |= (
                self._day_first is None and moment is not None and not stated[2:4].isdigit()
            )
            self.timed = self.dated = True
            self.zoned = self.zoned or zoned
        elif passed := row.get("elapsed", "").strip():
            moment = round(float(passed) * NS_PER_S) if _SECONDS.fullmatch(passed) else None
            self.timed = True
        else:
            moment = self._moment("", "", str(gpu))
        if moment is None:
            self.readings.unusable(line, place)
            return
        self.readings.lines += 1
        for column, cell in row.items():
            if column in self._quantities and column not in _IDENTITY and column not in _NUMBERS:
                self.readings.add(gpu, column, self._quantities[column], moment, cell)

    def _gpu(self, row: dict[str, str]) -> int:
        for column in _NUMBERS:
            if _GPU.fullmatch(index := row.get(column, "").strip()):
                return int(index)
        identity = next(
            (
                row[key]
                for key in ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_serial")
                if key in row
            ),
            "",
        )
        return self._gpu_of.setdefault(identity, len(self._gpu_of))

    def _moment(self, date: str, time: str, gpu: str) -> int | None:
        """ns of one reading; without a clock the readings of each GPU are one second apart."""
        if time:
            moment = local_ns(date, time, bool(self._day_first))
            self.timed = True
            self.dated = self.dated or bool(date)
            return moment
        count = self._samples.get(gpu, 0)
        self._samples[gpu] = count + 1
        return count * NS_PER_S


# A column that somebody's script put before those of the tool goes first: each of its calls may count from 0.
_NUMBERS = ("gpu", "gpu_id", "gpu_index", "device", "index")
_IDENTITY = {
    "timestamp", "elapsed", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_serial",
    "serial", "driver_version", "count", "vbios_version",
}  # fmt: skip


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:
        return []


def _kind_of(line: str) -> str:
    text = line.strip().lstrip("\ufeff")
    if text.startswith("#"):
        return "dmon" if _DMON.match(text) else "dcgm" if _DCGM.match(text) else ""
    if begins_table(text):
        return "table"
    if time_of_tegrastats(text) is not None:
        return "tegrastats"
    if _ONE_FIELD.fullmatch(text):
        return "query"
    if "," in text and _QUERY.match(text) and _QUERY_FIELDS.search(text):
        return "query"
    return "query" if _HAS_TIME.search(text) and columns_of_scripts(_cells(text)) else ""


def _lines(stream: IO[bytes], head: bytes) -> Iterator[str]:
    """Lines of text; a line that is too long for a log is cut."""
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    with io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline=None) as text:
        while line := text.readline(MAX_LINE_LENGTH):
            yield line
