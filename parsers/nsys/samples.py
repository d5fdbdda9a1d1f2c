"""What each thread did: CPU samples, named after the innermost function, and when it ran on a processor."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, Effect, EventKind, LaneKind
from parsers.model.names.sleeping import processor_name
from parsers.nsys.host_calls import ThreadLanes
from parsers.nsys.reading import UNKNOWN, Codes, Reading, is_possible, taken
from parsers.sqlite.database import Table


def read_samples(reading: Reading) -> None:
    """COMPOSITE_EVENTS, each an instant."""
    table = reading.database.table("COMPOSITE_EVENTS")
    if table is None or not {"start", "globalTid"} <= table.columns.keys():
        return
    symbols = _leaf_symbols(reading)
    lanes, codes = ThreadLanes(reading, LaneKind.SAMPLES), Codes()
    name_of = np.empty(0, np.int32)
    unknown = reading.builder.string("(sample without a call chain)")
    columns = {
        "start": table.expression("start", UNKNOWN),
        "thread": table.expression("globalTid", 0),
        "id": table.expression("id", -1),
    }
    for batch in reading.batches(table, columns, "reading CPU samples"):
        rows = reading.rows_of(table, batch)
        good = reading.chosen(table, batch["start"], batch["start"], rows)
        place = np.minimum(np.searchsorted(symbols[0], batch["id"]), max(len(symbols[0]) - 1, 0))
        if len(symbols[0]):
            symbol = np.where(symbols[0][place] == batch["id"], symbols[1][place], -1)
            code = codes.of(symbol)
            if len(codes.values) > len(name_of):
                name_of = np.append(name_of, reading.names(codes.values[len(name_of) :]))
            name = np.where(symbol >= 0, name_of[code], unknown)
        else:
            name = np.full(len(batch), unknown)
        reading.builder.add(
            taken(batch["start"], good),
            taken(batch["start"], good),
            name[good],
            lanes.of(batch["thread"][good]),
            EventKind.SAMPLE,
            rows[good],
        )


def _leaf_symbols(reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Sample ids, sorted, and the StringIds id of each one's innermost function."""
    table: Table | None = reading.database.table("SAMPLING_CALLCHAINS")
    ids, symbols = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    if table is not None and {"id", "symbol", "stackDepth"} <= table.columns.keys():
        columns = {"id": table.expression("id", -1), "symbol": table.expression("symbol", -1)}
        for batch in reading.batches(table, columns, "reading call chains", "stackDepth = 0"):
            ids.append(batch["id"])
            symbols.append(batch["symbol"])
    every, chosen = np.concatenate(ids), np.concatenate(symbols)
    order = np.argsort(every, kind="stable")
    return every[order], chosen[order]


_COLUMNS = ("thread", "start", "cpu", "is_in", "row")


def read_scheduling(reading: Reading) -> None:
    """One event for each stretch of a thread on one processor; a switch whose other half is missing is counted."""
    table = reading.database.table("SCHED_EVENTS")
    if table is None or not {"start", "isSchedIn", "globalTid"} <= table.columns.keys():
        return
    columns = {
        "start": table.expression("start", UNKNOWN),
        "thread": table.expression("globalTid", 0),
        "cpu": table.expression("cpu", UNKNOWN),
        "is_in": table.expression("isSchedIn", 0),
    }
    parts: dict[str, list[I64]] = {name: [] for name in _COLUMNS}
    for batch in reading.batches(table, columns, "reading when threads ran"):
        timed = is_possible(batch["start"])
        for name in _COLUMNS[:-1]:
            parts[name].append(batch[name][timed])
        parts["row"].append(reading.rows_of(table, batch)[timed])
    if not parts["start"]:
        return
    thread, start, cpu, is_in, row = (np.concatenate(parts[name]) for name in _COLUMNS)
    order = np.lexsort((is_in != 0, start, thread))
    thread, start, cpu, row, put = thread[order], start[order], cpu[order], row[order], is_in[order] != 0
    begins = np.flatnonzero(put[:-1] & ~put[1:] & (thread[:-1] == thread[1:]))
    _count_halves(reading, table.name, len(start) - 2 * len(begins))
    good = reading.chosen(table, start[begins], start[begins + 1], row[begins])
    begins = begins[good]
    processors = Codes()
    code = processors.of(cpu[begins])
    texts = [processor_name(number if number > UNKNOWN else None) for number in processors.values]
    names = np.array([reading.builder.string(text) for text in texts], np.int32)
    reading.builder.add(
        start[begins],
        start[begins + 1],
        names[code] if len(begins) else 0,
        ThreadLanes(reading, LaneKind.OTHER).of(thread[begins]),
        EventKind.OTHER,
        row[begins],
    )


def _count_halves(reading: Reading, table: str, count: int) -> None:
    reading.builder.quality.note(
        "scheduled in part",
        Effect.NOTED,
        "A thread was put on a processor before the recording began, or taken away after it ended.",
        table,
        count,
    )
