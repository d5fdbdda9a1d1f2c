"""NVTX rows: ranges, marks, domains and thread names, and PyTorch's operators where emit_nvtx wrote them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np

from parsers.model import BOOL, I32, I64, Attribute, EventKind, LaneKind
from parsers.model.arrays import distinct_values, rows_by, without
from parsers.model.late import dataclass
from parsers.model.names.collectives import collective_of, is_communication_range
from parsers.model.names.per_name import PerString
from parsers.model.names.steps import step_number
from parsers.nsys.host_calls import ThreadLanes, ended
from parsers.nsys.nccl_payloads import read_payloads
from parsers.nsys.reading import UNKNOWN, Codes, Reading, RowCodes, global_process
from parsers.sqlite.database import Batch, Table

MARK, THREAD_NAME, PUSH_POP, START_END, DOMAIN = 34, 39, 59, 60, 75
_OLD_RANGES = (70, 71)
_RANGES = (PUSH_POP, START_END, *_OLD_RANGES)
# What torch.autograd.profiler.emit_nvtx appends to an operator's name.
OPERATOR_SUFFIX = r", (seq|op_id|sizes|input_op_ids) = .*$"
# What PyProf writes around calls: a function with its arguments, or the lines that led to it, as Python spells them.
_OF_PYPROF = (
    (r"(?s)^\{'mod': '([\w.]+)', 'op': '(\w+)'.*$", r"\1.\2"),
    (r"(?s)^\{'traceMarker': \['([^']{1,300})'.*$", r"\1"),
)
_OPERATOR_NAMES = ("aten::", "autograd::")
_COLLECTIVE_NAMES = ("nccl:", "c10d::", "gloo:")
_SEQUENCE = r", seq = (?P<seq>\d{1,18})"
_SIZES = r", sizes = (?P<sizes>\[.*?\])(?:, input_op_ids = |$)"


def read_nvtx(reading: Reading) -> None:
    """NVTX_EVENTS; ranges still open when the recording stopped end at its last event."""
    table = reading.database.table("NVTX_EVENTS")
    if table is None or "start" not in table:
        return
    domains = _read_domains(reading, table)
    wanted = (*_RANGES, MARK)
    where = f"eventType IN ({', '.join(map(str, wanted))})" if "eventType" in table else ""
    columns = {
        "start": table.expression("start", UNKNOWN),
        "end": table.expression("end", UNKNOWN),
        "type": table.expression("eventType", PUSH_POP),
        "thread": table.expression("globalTid", 0),
        "domain": table.expression("domainId", 0),
        "nameid": table.expression("textId", UNKNOWN),
        "text": table.expression("text", ""),
    }
    ranges = _Ranges(reading, table, domains)
    for batch in reading.batches(table, columns, "reading NVTX ranges", where):
        ranges.add(batch)
    ranges.finish()


def _read_domains(reading: Reading, table: Table) -> dict[tuple[int, int], str]:
    """Domain names by (globalPid, domainId); names of threads are kept on the way."""
    if "eventType" not in table:
        return {}
    names: dict[tuple[int, int], str] = {}
    columns = [table.expression(column, 0) for column in ("eventType", "globalTid", "domainId", "textId")]
    sql = (
        f'SELECT {", ".join(columns)}, {table.expression("text", "")} FROM "{table.name}" '
        f"WHERE eventType IN ({DOMAIN}, {THREAD_NAME})"
    )
    for kind, thread, domain, text_id, text in reading.optional_rows(sql):
        if not text and isinstance(text_id, int):
            text = reading.strings_of([text_id]).get(text_id, "")
        if not isinstance(thread, int) or not isinstance(domain, int) or not text:
            continue
        if kind == THREAD_NAME:
            reading.thread_names[thread] = str(text)
        else:
            names[global_process(thread), domain] = str(text)
    return names


@dataclass(frozen=True, slots=True)
class _Regions:
    """Ranges that are no operators, as equal columns."""

    start: I64
    end: I64
    name: I32
    thread: I64
    row: I64
    domain: I64

    @staticmethod
    def joined(parts: Sequence[_Regions]) -> _Regions:
        return _Regions(
            *(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(_Regions))
        )


def _without_arguments(text: str) -> str:
    """A range of PyProf by the function or the line it is about; others as they are."""
    if text.startswith("{'"):
        for pattern, name in _OF_PYPROF:
            text = re.sub(pattern, name, text)
    return text


def _sequence_numbers(text: Any) -> I64 | None:
    """The autograd sequence number in each text, -1 without one; None when no text has one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.extract_regex(text, _SEQUENCE).field(0)
    has_one = pc.greater(pc.fill_null(pc.binary_length(found), 0), 0)
    if not pc.any(has_one).as_py():
        return None
    digits = pc.if_else(has_one, found, pa.scalar(b"-1", pa.binary()))
    return np.asarray(pc.cast(pc.cast(digits, pa.string()), pa.int64()))


def _speaks_of_an_operator(name: str) -> int:
    """1 for an operator's name, -1 for a collective's, which is a region as in other recordings, 0 for others."""
    return 1 if name.startswith(_OPERATOR_NAMES) else -1 if name.startswith(_COLLECTIVE_NAMES) else 0


class _Ranges:
    """Turns batches of ranges into events."""

    def __init__(self, reading: Reading, table: Table, domains: dict[tuple[int, int], str]) -> None:
        self._reading = reading
        self._table = table
        self._domains = domains
        self._ids = Codes()
        self._name_of_id = np.empty(0, np.int32)
        self._regions = ThreadLanes(reading, LaneKind.REGION)
        self._operators = ThreadLanes(reading, LaneKind.CPU_THREAD)
        self._domain_codes = RowCodes(2)
        self._domain_name = np.empty(0, np.int64)
        self._seen: list[_Regions] = []
        self._payloads = read_payloads(reading, table)
        reading.stated_ranks.update(self._payloads.ranks)
        strings = reading.builder.strings
        self._named = PerString(strings, _speaks_of_an_operator)
        self._numbered = PerString(strings, lambda text: step_number(text) is not None)

    def add(self, batch: Batch) -> None:
        reading, builder = self._reading, self._reading.builder
        rows = reading.rows_of(self._table, batch)
        kinds = batch["type"]
        start = batch["start"]
        end = np.where(kinds == MARK, start, batch["end"])
        end = ended(reading, self._table, start, end)
        good = reading.usable(self._table, start, end, rows)
        name, has_suffix, sequence, sizes = self._names(batch)
        speaks = self._named.of(name)
        is_operator = (has_suffix & (speaks >= 0)) | (speaks > 0)
        kind = np.where(
            kinds == MARK, EventKind.MARK, np.where(is_operator, EventKind.CPU_OP, EventKind.REGION)
        )
        lane = np.empty(len(batch), np.int32)
        domain = self._domain_of(batch)
        region = good & (kind == EventKind.REGION)
        threads = batch["thread"]
        self._seen.append(
            _Regions(start[region], end[region], name[region], threads[region], rows[region], domain[region])
        )
        now = good & ~(region & self._may_be_steps(name))
        for mine, lanes in ((now & is_operator, self._operators), (now & ~is_operator, self._regions)):
            lane[mine] = lanes.of(threads[mine])
        events = builder.add(start[now], end[now], name[now], lane[now], kind[now], rows[now])
        for attribute, values in (
            (Attribute.SEQUENCE, sequence),
            (Attribute.INPUT_DIMS, sizes),
            (Attribute.NVTX_DOMAIN, domain),
            (Attribute.COLLECTIVE, self._collective_of(name)),
            (Attribute.MESSAGE_BYTES, self._payloads.of(batch["row"])),
        ):
            if values is not None:
                stated = values[now] >= 0
                builder.attribute(attribute, events[stated], values[now][stated])

    def finish(self) -> None:
        """Add the ranges that are named like steps: as steps where they are, as regions otherwise."""
        if not self._seen:
            return
        regions = _Regions.joined(self._seen)
        steps = _steps_among(
            regions.start, regions.end, regions.name, regions.thread, self._reading.builder.strings
        )
        rest = without(np.flatnonzero(self._may_be_steps(regions.name)), steps)
        for chosen, lanes, kind in (
            (steps, ThreadLanes(self._reading, LaneKind.STEPS), EventKind.STEP),
            (rest, self._regions, EventKind.REGION),
        ):
            if len(chosen):
                events = self._reading.builder.add(
                    regions.start[chosen],
                    regions.end[chosen],
                    regions.name[chosen],
                    lanes.of(regions.thread[chosen]),
                    kind,
                    regions.row[chosen],
                )
                stated = regions.domain[chosen] >= 0
                self._reading.builder.attribute(
                    Attribute.NVTX_DOMAIN, events[stated], regions.domain[chosen][stated]
                )

    def _may_be_steps(self, name: I32) -> BOOL:
        return self._numbered.of(name).astype(bool)

    def _names(self, batch: Batch) -> tuple[I32, BOOL, I64 | None, I64 | None]:
        """Name, whether it is an operator, its autograd sequence number and its shapes, for each row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        builder = self._reading.builder
        length = len(batch)
        ids = self._ids.of(batch["nameid"])
        if len(self._ids.values) > len(self._name_of_id):
            new = self._ids.values[len(self._name_of_id) :]
            self._name_of_id = np.append(self._name_of_id, self._reading.names(new, _without_arguments))
        name = self._name_of_id[ids]
        is_operator = np.zeros(length, bool)
        text: Any = pc.cast(batch.text("text"), pa.binary())
        filled = np.asarray(pc.greater(pc.binary_length(text), 0))
        if not filled.any():
            return name, is_operator, None, None
        marked = np.asarray(pc.match_substring_regex(text, OPERATOR_SUFFIX))
        short = pc.replace_substring_regex(text, OPERATOR_SUFFIX, "") if marked.any() else text
        unique = short.dictionary_encode()
        texts = [each.decode("utf-8", "replace") for each in unique.dictionary.to_pylist()]
        interned = [builder.string(_without_arguments(each)) for each in texts]
        spelled = np.array(interned, np.int32)[unique.indices.to_numpy()]
        name = np.where(filled, spelled, name)
        is_operator = marked
        if not marked.any():
            return name, is_operator, None, None
        return name, is_operator, _sequence_numbers(text), self._shapes(text)

    def _shapes(self, text: Any) -> I64 | None:
        """Index of the text of the input shapes in each row, -1 without; None when no row has any."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.extract_regex(text, _SIZES).field(0)
        if not pc.any(pc.greater(pc.fill_null(pc.binary_length(found), 0), 0)).as_py():
            return None
        unique = pc.fill_null(found, pa.scalar(b"", found.type)).dictionary_encode()
        written = [each.decode("utf-8", "replace") for each in unique.dictionary.to_pylist()]
        index = np.array([self._reading.builder.string(each) if each else -1 for each in written], np.int64)
        shapes: I64 = index[unique.indices.to_numpy()]
        return shapes

    def _domain_of(self, batch: Batch) -> I64:
        codes = self._domain_codes.of(batch["thread"] & ~np.int64(0xFFFFFF), batch["domain"])
        for process, domain in self._domain_codes.keys[len(self._domain_name) :]:
            text = self._domains.get((process, domain), "" if domain <= 0 else f"domain {domain}")
            self._domain_name = np.append(
                self._domain_name, self._reading.builder.string(text) if text else -1
            )
        return self._domain_name[codes]

    def _collective_of(self, name: I32) -> I64 | None:
        strings = self._reading.builder
        used = distinct_values(name)
        named = [
            (index, collective_of(text))
            for index in used.tolist()
            if is_communication_range(text := strings.strings[index])
        ]
        named = [(index, collective) for index, collective in named if collective]
        if not named:
            return None
        table = np.full(len(strings.strings), -1, np.int64)
        for index, collective in named:
            table[index] = strings.string(collective)
        return table[name]


def _steps_among(start: I64, end: I64, name: I32, thread: I64, strings: Sequence[str]) -> I64:
    """Indices of the ranges that are steps.

    A thread's ranges count when each has another number than the one before it, and no other range encloses them.
    """
    numbers = {index: step_number(strings[index]) for index in distinct_values(name).tolist()}
    table = np.zeros(max(numbers, default=-1) + 1, bool)
    table[[index for index, number in numbers.items() if number is not None]] = True
    candidates = np.flatnonzero(table[name]) if len(table) else np.empty(0, np.int64)
    chosen = []
    of_thread = dict(rows_by(thread)) if len(candidates) else {}
    for each, rows in rows_by(thread[candidates]):
        mine = candidates[rows]
        mine = mine[np.argsort(start[mine], kind="stable")]
        counted = [numbers[index] or 0 for index in name[mine].tolist()]
        rising = all(earlier < later for earlier, later in pairwise(counted))
        if len(mine) >= 2 and rising and not _enclosed(start, end, of_thread[each], mine).any():
            chosen.append(mine)
    return np.concatenate(chosen) if chosen else np.empty(0, np.int64)


def _enclosed(start: I64, end: I64, ranges: I64, inner: I64) -> BOOL:
    """For each inner range, whether an earlier range of the thread still runs when it ends."""
    order = ranges[np.lexsort((-end[ranges], start[ranges]))]
    reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end[order])[:-1]))
    place = np.empty(int(ranges.max()) + 1, np.int64)
    place[order] = np.arange(len(order))
    return reach[place[inner]] >= end[inner]
