"""CPU samples: where each thread was when it was sampled, named after the innermost function."""

from __future__ import annotations

import numpy as np

from parsers.model import EventKind, LaneKind
from parsers.nsys.host_calls import ThreadLanes
from parsers.nsys.identifiers import UNKNOWN, Codes
from parsers.nsys.reading import Reading, taken
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
