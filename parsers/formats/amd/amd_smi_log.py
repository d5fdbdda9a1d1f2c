"""Logs of AMD GPUs: amd-smi monitor or metric and rocm-smi as CSV, as counters."""

from __future__ import annotations

import numpy as np

from parsers.csv_tables import CsvTable, header_of, plain, read_csv
from parsers.files.base import Accompanying, Source, parser
from parsers.model import BOOL, F64, I64, Counter, Effect, Excessive, Malformed, Progress, Trace
from parsers.model.arrays import rows_by
from parsers.model.builder import MAX_DEVICES, TraceBuilder
from parsers.model.counters import MAX_READ
from parsers.model.late import regex
from parsers.model.units import NS_PER_S
from parsers.smi.columns import Quantity
from parsers.smi.exporters import amd_column

_PLACES = ("gpu", "device")
_NUMBER = regex(r"[-+]?\d+(?:\.\d+)?")
_MIN_KNOWN_COLUMNS = 2  # known columns beside that of the GPU: fewer may be anybody's table
_FARTHEST_S = 1 << 33


@parser
class AmdSmiLog(Accompanying):
    """Recognised by a column for the GPU and at least two columns of these tools."""

    format = "amd-smi-log"
    title = "amd-smi and rocm-smi"
    files = "logs as CSV, as counters"
    suffixes = (".csv",)
    priority = 68
    version = 2

    def recognises(self, source: Source) -> bool:
        header = header_of(source.head)
        return any(plain(title) in _PLACES for title in header) and (
            sum(amd_column(title) is not None for title in header) >= _MIN_KNOWN_COLUMNS
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        table = read_csv(source, builder.quality, progress.part(0.0, 0.8))
        gpu = _numbers(table, *_PLACES)
        usable = np.isfinite(gpu)
        builder.quality.read(table.length)
        builder.quality.keep(int(usable.sum()))
        builder.quality.note(
            "unreadable line",
            Effect.QUARANTINED,
            "Lines without a GPU were left out.",
            "",
            int((~usable).sum()),
        )
        time, dated = _times(table, gpu, usable)
        columns = _columns(table)
        for count, (number, rows) in enumerate(rows_by(gpu[usable])):
            if count >= MAX_DEVICES:
                raise Excessive("GPUs", MAX_DEVICES)
            mine = np.flatnonzero(usable)[rows]
            mine = mine[np.argsort(time[mine], kind="stable")]
            builder.counters += _counters(columns, int(number), mine, time[mine])
        if not builder.counters:
            raise Malformed(
                source.path, "The log has a header but no readings.", "Let amd-smi monitor run for a while."
            )
        if dated:
            builder.epoch_ns = 0
        else:
            builder.quality.note(
                "no date",
                Effect.NOTED,
                "The log contains no times, so its readings are assumed to be 1 s apart.",
            )
        builder.came_from(source.name, self.format, "amd-smi")
        return builder.build(progress.part(0.8, 1.0))


def _columns(table: CsvTable) -> list[tuple[Quantity, F64]]:
    named = ((amd_column(title), plain(title)) for title in table.header)
    return [(quantity, _numbers(table, name)) for quantity, name in named if quantity is not None]


def _counters(columns: list[tuple[Quantity, F64]], gpu: int, rows: I64, time: I64) -> list[Counter]:
    found: dict[str, Counter] = {}
    for quantity, column in columns:
        if quantity.name in found:
            continue
        values = column[rows]
        good = np.isfinite(values)
        if good.any():
            found[quantity.name] = Counter(
                f"GPU {gpu} {quantity.name}", quantity.unit, time[good], values[good] * quantity.factor
            )
    return list(found.values())


def _numbers(table: CsvTable, *names: str) -> F64:
    """The first number in each cell, such as 1700 in "(1700Mhz)"; nan without one."""
    texts, which = table.texts(*names)
    values = [float(found[0]) if (found := _NUMBER.search(text)) else np.nan for text in texts]
    read = np.array(values, np.float64)[which] if len(which) else np.empty(0)
    return np.where(np.abs(read) < MAX_READ, read, np.nan)


def _times(table: CsvTable, gpu: F64, usable: BOOL) -> tuple[I64, bool]:
    """ns of each row, and whether the log states them; without a clock the readings of each GPU are 1 s apart."""
    if "timestamp" in table:
        stated = table.numbers("timestamp")
        if np.all(np.isfinite(stated[usable]) & (np.abs(stated[usable]) < _FARTHEST_S)):
            return (np.where(usable, stated, 0) * NS_PER_S).astype(np.int64), True
    time = np.zeros(table.length, np.int64)
    for _, rows in rows_by(gpu[usable]):
        time[np.flatnonzero(usable)[rows]] = np.arange(len(rows)) * NS_PER_S
    return time, False
