"""Tables of ROCm's recorders, in files or databases, as events: one row is a dispatch, a copy or a call.

rocprof (v1, v2) and rocprofv3 name the same columns differently; they are known by the names without punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from parsers.model import BOOL, F64, I64, Device, Effect, EventKind, KernelProfile, Progress, QualityRecorder
from parsers.model.arrays import ABSENT, MAX_NUMBER
from parsers.model.kernels import MetricValue
from parsers.model.late import dataclass, regex
from parsers.model.names.kernels import BARRIER_PACKET
from parsers.rocm.timeline import (
    AMD_GPU,
    FILLED,
    Calls,
    Operations,
    Timeline,
    direction_of,
    is_marker,
    streams_or_queues,
)

START = ("beginns", "starttimestamp", "begintimestamp", "starttime")
END = ("endns", "endtimestamp", "endtime")
KERNEL = ("kernelname",)
FUNCTION = ("function", "apiname")
DIRECTION = ("direction",)
_GPU = ("gpuid", "agentid", "devid", "deviceid")
_PROCESS = ("processid", "procid", "pid")
_THREAD = ("threadid", "tid")
_CORRELATION = ("correlationid", "corrid")
_REGISTERS = ("archvgpr", "archvgprcount", "vgprcount", "vgpr")
_NO_COUNTER = regex(
    r"(index|dispatchid|kernelid|kernelname|kind|.*timestamp|.*ns|obj|sig|correlationid|corrid|(gpu|agent|queue|stream|"
    r"process|thread|dev)(id|index)|pid|tid|grd|wgr|lds|scr|fbar|(?!(fetch|write)size).*size[xyz]?|.*(vgpr|sgpr)(count)?|"
    r"wavesize|ldsperworkgroup|scratchper\w+|node|device|name|domain|function|nodeid|roctxrange|flatkernelid|kernelobj)"
)
_PROFILES_AT_ONCE = 500
_BARRIERS = "a row is a barrier packet, in which a queue waits for other work and computes nothing"
_CLONE = regex(r"( \[clone [^\]]*\])+$|\.kd$")


class Rows(Protocol):
    """A table by the plain names of its columns."""

    header: tuple[str, ...]
    length: int

    def __contains__(self, name: str) -> bool: ...

    def integers(self, *names: str) -> I64: ...

    def numbers(self, name: str) -> F64: ...

    def texts(self, *names: str) -> tuple[list[str], I64]: ...


def kernel_title(name: str) -> str:
    """A kernel's name without quotes and without what the compiler appended to its symbol."""
    return _CLONE.sub("", _CLONE.sub("", name.strip().strip('"')))


def counters_of(rows: Rows, plain_names: Mapping[str, str]) -> list[str]:
    """The columns, as written, that hold hardware counters: those that no recorder uses for anything else."""
    return [title for title in rows.header if title and not _NO_COUNTER.fullmatch(plain_names[title])]


def are_work(texts: list[str], which: I64, quality: QualityRecorder) -> BOOL:
    """Which rows, whose kernels are ``texts[which]``, are no barrier packets; these go into the account."""
    works = np.array([text.strip().strip('"') != BARRIER_PACKET for text in texts], bool)[which]
    if barriers := len(works) - int(np.count_nonzero(works)):
        quality.read(barriers)
        quality.note("no-work", Effect.QUARANTINED, _BARRIERS, "", barriers)
    return works


@dataclass(slots=True)
class TableRecords:
    """Adds the rows of tables to a timeline; ``correlation`` names the columns that join calls and operations."""

    timeline: Timeline
    correlation: tuple[str, ...] = _CORRELATION

    def devices(self, rows: Rows) -> I64:
        """The device of each row: the number in its agent's or GPU's name."""
        texts, which = rows.texts(*_GPU)
        numbers = [int(found[0]) if (found := re.search(r"\d{1,6}", text)) else 0 for text in texts]
        made = [
            self.timeline.builder.device(Device(number, AMD_GPU, self.timeline.rank)) for number in numbers
        ]
        return np.array(made, np.int64)[which] if made else which

    def kernels(self, rows: Rows, where: str, name: tuple[str, ...] = KERNEL) -> None:
        texts, which = rows.texts(*name)
        device = self.devices(rows)
        grid, block = (
            _shape(rows, "gridsize", ("grd", "gridsize")),
            _shape(rows, "workgroupsize", ("wgr", "workgroupsize")),
        )
        works = are_work(texts, which, self.timeline.builder.quality)
        self.timeline.operations(
            Operations(
                rows.integers(*START)[works],
                rows.integers(*END)[works],
                self.timeline.names(kernel_title(text) for text in texts)[which][works],
                device[works],
                streams_or_queues(device, rows.integers("streamid"), rows.integers("queueid"))[works],
                _or_zero(rows.integers(*_PROCESS))[works],
                rows.integers(*self.correlation)[works],
                np.full(np.count_nonzero(works), -1, np.int64),
                grid=grid[works],
                block=block[works],
                registers=rows.integers(*_REGISTERS)[works],
                number=rows.integers("dispatchid")[works],
            ),
            where,
        )

    def copies(
        self, rows: Rows, where: str, name: tuple[str, ...] = DIRECTION, asked_for: I64 | None = None
    ) -> None:
        """``asked_for``: bytes of each row by the call, for tables that state none themselves."""
        texts, which = rows.texts(*name)
        described = [direction_of(text.strip('"')) for text in texts]
        directions = np.array([direction.value for _, direction in described], np.int64)
        kinds = np.array(
            [EventKind.MEMSET if short == FILLED else EventKind.MEMCPY for short, _ in described], np.uint8
        )
        self.timeline.operations(
            Operations(
                rows.integers(*START),
                rows.integers(*END),
                self.timeline.names(short for short, _ in described)[which],
                self._copying_device(rows),
                rows.integers("streamid", "queueid"),
                _or_zero(rows.integers(*_PROCESS)),
                rows.integers(*self.correlation),
                np.full(rows.length, -1, np.int64),
                kinds[which],
                direction=directions[which],
                bytes=rows.integers("size", "bytes") if asked_for is None else asked_for,
            ),
            where,
        )

    def _copying_device(self, rows: Rows) -> I64:
        """The GPU of a copy: of its two agents the one that has run a kernel, else the first device."""
        known = {device.id: index for index, device in enumerate(self.timeline.builder.devices)}
        found = np.full(rows.length, -1, np.int64)
        for column in ("sourceagentid", "destinationagentid", *_GPU):
            if column not in rows:
                continue
            texts, which = rows.texts(column)
            numbers = [int(match[0]) if (match := re.search(r"\d{1,6}", text)) else -1 for text in texts]
            places = np.array([known.get(number, -1) for number in numbers], np.int64)[which]
            found = np.where(places >= 0, places, found)
        if np.any(found < 0):
            found[found < 0] = (
                0 if known else self.timeline.builder.device(Device(0, AMD_GPU, self.timeline.rank))
            )
        return found

    def calls(
        self,
        rows: Rows,
        where: str,
        suffix: str = "HIP calls",
        name: tuple[str, ...] = FUNCTION,
        ranges: bool = False,
    ) -> None:
        """API calls, and the ranges of roctx, which state a domain or are of a table of their own (``ranges``)."""
        texts, which = rows.texts(*name)
        domains, domain = rows.texts("domain")
        marked = np.array([ranges or is_marker(text) for text in domains], bool)
        thread = _or_zero(rows.integers(*_THREAD))
        process = rows.integers(*_PROCESS)
        self.timeline.calls(
            Calls(
                rows.integers(*START),
                rows.integers(*END),
                self.timeline.names(text.strip('"') for text in texts)[which],
                np.where(process == ABSENT, 0, process),
                thread,
                rows.integers(*self.correlation),
                np.full(rows.length, -1, np.int64),
                marked[domain],
            ),
            where,
            suffix,
        )


def profiles_of(rows: Rows, counters: Mapping[str, str], progress: Progress) -> list[KernelProfile]:
    """One profile for each dispatch of a table; ``counters`` maps the title of each to its plain column name.

    rocprofv3 has a row for each counter, with its name and value, instead of a column.
    """
    texts, which = rows.texts(*KERNEL)
    names = [kernel_title(text) for text in texts]
    grid, block = _sizes(rows)
    blocks = np.maximum(-(-np.maximum(grid, 1) // np.maximum(block, 1)), 1)
    time = _durations(rows)
    devices, device = rows.texts(*_GPU)
    found: list[KernelProfile] = []
    for number, metrics in _metrics(rows, counters).items():
        if len(found) % _PROFILES_AT_ONCE == 0:
            progress.step(number / max(rows.length, 1), "reading counters")
        timed = 0 < time[number] < MAX_NUMBER  # nan where it is not stated
        gpu = re.search(r"\d{1,6}", devices[device[number]])
        found.append(
            KernelProfile(
                id=str(len(found)),
                name=names[which[number]],
                grid=_three(blocks[number]),
                block=_three(np.maximum(block[number], 1)),
                device=int(gpu[0]) if gpu else None,
                compute_capability=None,
                context=None,
                stream=None,
                process=None,
                process_name="",
                metrics=metrics | ({"DurationNs": round(time[number])} if timed else {}),
                units={"DurationNs": "ns"} if timed else {},
                device_name=AMD_GPU,
            )
        )
    return found


def _durations(rows: Rows) -> F64:
    """ns of each dispatch, which rocprofiler-compute states as the means of several runs; nan where none is stated."""
    start, end = (next((name for name in names if name in rows), "") for names in (START, END))
    return rows.numbers(end) - rows.numbers(start) if start and end else np.full(rows.length, np.nan)


def _metrics(rows: Rows, counters: Mapping[str, str]) -> dict[int, dict[str, MetricValue]]:
    """The counters of each dispatch, by its first row."""
    if "countername" in rows and "countervalue" in rows:
        titles, title = rows.texts("countername")
        values = rows.numbers("countervalue").tolist()
        _, firsts, dispatch = np.unique(
            rows.integers("dispatchid", "correlationid"), return_index=True, return_inverse=True
        )
        found: dict[int, dict[str, MetricValue]] = {first: {} for first in sorted(firsts.tolist())}
        of_row = firsts[dispatch.reshape(-1)].tolist()
        for first, name, value in zip(of_row, title.tolist(), values, strict=True):
            if value == value:
                found[first][titles[name]] = value
        return found
    columns = [rows.numbers(column).tolist() for column in counters.values()]
    return {
        number: {
            title: column[number]
            for title, column in zip(counters, columns, strict=True)
            if column[number] == column[number]
        }
        for number in range(rows.length)
    }


def _three(size: I64) -> tuple[int, int, int]:
    x, y, z = size.tolist()
    return x, y, z


def _sizes(rows: Rows) -> tuple[I64, I64]:
    """Grid and workgroup of each row, both in work-items."""
    return _shape(rows, "gridsize", ("grd", "gridsize")), _shape(
        rows, "workgroupsize", ("wgr", "workgroupsize")
    )


def _shape(rows: Rows, axes: str, whole: tuple[str, ...]) -> I64:
    """(n, 3) sizes from one column for each axis, or from one for all; 0 where none is stated."""
    if f"{axes}x" in rows:
        columns = [rows.integers(f"{axes}{axis}") for axis in "xyz"]
    else:
        columns = [rows.integers(*whole), *(np.ones(rows.length, np.int64) for _ in range(2))]
    return np.maximum(np.stack(columns, axis=1), 0)


def _or_zero(numbers: I64) -> I64:
    return np.where(numbers == ABSENT, 0, numbers)
