"""Rows of host work: CUDA API calls, operating-system calls, library calls, MPI, and the profiler's own overhead."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from parsers.model import BOOL, I32, I64, Attribute, Effect, EventKind, LaneKind
from parsers.model.late import dataclass, regex
from parsers.nsys.gpu_work import Correlated
from parsers.nsys.reading import UNKNOWN, Codes, LaneKey, Reading, global_process, taken
from parsers.sqlite.database import Batch, Table
from parsers.statements import state_failed_launches

_VERSION_SUFFIX = regex(r"_v\d+$")
_OS_CALL, _PROFILING_STARTED = 27, 31


@dataclass(frozen=True, slots=True)
class _Family:
    """A group of tables with start, end, globalTid and a name."""

    tables: re.Pattern[str]
    lane: LaneKind
    kind: EventKind
    doing: str


_API = _Family(regex("CUPTI_ACTIVITY_KIND_RUNTIME"), LaneKind.CUDA_API, EventKind.API, "reading CUDA calls")
_FAMILIES = (
    _Family(regex(r"OSRT_API"), LaneKind.OS_RUNTIME, EventKind.OS_RUNTIME, "reading operating-system calls"),
    _Family(
        regex(r"CUDNN_EVENTS|CUBLAS_EVENTS"), LaneKind.CPU_THREAD, EventKind.CPU_OP, "reading library calls"
    ),
    _Family(regex(r"(MPI|UCP|UCX|NVSHMEM)_\w*EVENTS"), LaneKind.REGION, EventKind.REGION, "reading messages"),
    _Family(regex(r"SYSCALL\w*"), LaneKind.OS_RUNTIME, EventKind.OS_RUNTIME, "reading system calls"),
    _Family(
        regex(r"PROFILER_OVERHEAD|CUPTI_ACTIVITY_KIND_OVERHEAD"),
        LaneKind.OVERHEAD,
        EventKind.OVERHEAD,
        "reading the profiler's overhead",
    ),
)


def call_name(text: str) -> str:
    """A call without the version that the driver appends: ``cudaLaunchKernel_v7000`` is ``cudaLaunchKernel``."""
    return _VERSION_SUFFIX.sub("", text)


class ThreadLanes:
    """Lane numbers of threads, for one kind of lane."""

    def __init__(self, reading: Reading, kind: LaneKind) -> None:
        self._reading = reading
        self._kind = kind
        self._codes = Codes()
        self._lane = np.empty(0, np.int32)

    def of(self, threads: I64) -> I32:
        """The lane of each globalTid."""
        codes = self._codes.of(threads)
        new = [
            self._reading.lane(LaneKey(self._kind, global_process(thread), thread))
            for thread in self._codes.values[len(self._lane) :]
        ]
        self._lane = np.append(self._lane, np.array(new, np.int32))
        return self._lane[codes]


def ended(reading: Reading, table: Table, start: I64, end: I64) -> I64:
    """``end`` with calls that never returned while recorded closed at the last event; they are counted as repaired."""
    open_ended = (start > UNKNOWN) & ((end <= UNKNOWN) | ((end == 0) & (start > 0)))
    if not open_ended.any():
        return end
    reading.builder.quality.note(
        "never ended",
        Effect.REPAIRED,
        "Ranges and calls that were still open when the recording stopped end at its last event.",
        table.name,
        int(open_ended.sum()),
    )
    return np.where(open_ended, np.maximum(reading.last_moment, start), end)


def read_api_calls(reading: Reading) -> Correlated:
    """CUPTI_ACTIVITY_KIND_RUNTIME: runtime and driver calls."""
    calls = Correlated()
    table = reading.database.table(_API.tables.pattern)
    if table is None:
        return calls
    columns = {
        "name": table.expression("nameId", UNKNOWN),
        "correlation": table.expression("correlationId", 0),
        "error": table.expression("returnValue", 0),
    }
    for batch, good, added in _added(reading, table, _API, columns):
        calls.add(*added[:3], taken(batch["correlation"], good))
        state_failed_launches(reading.builder, added[0], added[3], taken(batch["error"], good))
    return calls


def read_other_calls(reading: Reading) -> None:
    """OSRT, cuDNN, cuBLAS, MPI, UCX and overhead tables, whichever there are."""
    for family in _FAMILIES:
        for name in sorted(reading.database.tables):
            table = reading.database.tables[name]
            if (
                family.tables.fullmatch(re.sub(r"_V\d+$", "", name))
                and {"start", "end"} <= table.columns.keys()
            ):
                _read_family(reading, table, family)


def _read_family(reading: Reading, table: Table, family: _Family) -> None:
    columns = {
        "name": table.expression("nameId" if "nameId" in table else "textId", UNKNOWN),
        "bytes": table.expression("size", UNKNOWN),
    }
    ignored = f"{table.expression('eventClass', _OS_CALL)} <> {_PROFILING_STARTED}"
    where = ignored if family.kind is EventKind.OS_RUNTIME else ""
    for batch, good, (events, *_) in _added(reading, table, family, columns, where):
        sized = taken(batch["bytes"], good) > UNKNOWN
        if family.kind is EventKind.REGION:
            reading.builder.attribute(
                Attribute.MESSAGE_BYTES, events[sized], taken(batch["bytes"], good)[sized]
            )


def _added(
    reading: Reading, table: Table, family: _Family, more: dict[str, str], where: str = ""
) -> Iterator[tuple[Batch, BOOL | slice, tuple[I64, I64, I32, I32]]]:
    """Each batch of a table, which of its rows became events, and these events with starts, lanes and names."""
    lanes, names = ThreadLanes(reading, family.lane), Codes()
    name_of = np.empty(0, np.int32)
    columns = {
        "start": table.expression("start", UNKNOWN),
        "end": table.expression("end", UNKNOWN),
        "thread": table.expression("globalTid", 0),
        **more,
    }
    for batch in reading.batches(table, columns, family.doing, where):
        rows = reading.rows_of(table, batch)
        end = ended(reading, table, batch["start"], batch["end"])
        good = reading.chosen(table, batch["start"], end, rows)
        code = names.of(batch["name"])
        if len(names.values) > len(name_of):
            name_of = np.append(name_of, reading.names(names.values[len(name_of) :], call_name))
        lane = lanes.of(batch["thread"][good])
        start = taken(batch["start"], good)
        name = name_of[code[good]]
        events = reading.builder.add(start, taken(end, good), name, lane, family.kind, rows[good])
        yield batch, good, (events, start, lane, name)
