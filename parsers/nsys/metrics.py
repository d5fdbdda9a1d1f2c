"""Sampled quantities: GPU metrics, also as JSON in older exports, and what is sampled beside them."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable
from dataclasses import field

import msgspec
import numpy as np

from parsers.model import F64, I64, Counter, Effect, Excessive, LaneKind
from parsers.model.arrays import rows_by
from parsers.model.builder import MAX_COUNTERS
from parsers.model.late import dataclass, regex
from parsers.model.units import name_and_unit
from parsers.nsys.reading import FARTHEST_NS, UNKNOWN, Reading, is_possible
from parsers.nsys.targets import Machine
from parsers.sqlite.database import TableDamaged
from parsers.sqlite.guarded import quote

_PERCENT = regex(r"%|percent|throughput", re.IGNORECASE)
HERTZ_FROM = 1_000_000  # a clock "in MHz" above this is in Hz


def metric_name(recorded: str) -> tuple[str, str]:
    """Name and unit: "SMs Active [Throughput %]" is ("SMs active", "%")."""
    label, unit = name_and_unit(recorded)
    first, *others = label.split() or [recorded]
    words = [first, *(word if sum(map(str.isupper, word)) > 1 else word.lower() for word in others)]
    text = " ".join(words)
    if _PERCENT.search(unit):
        return text, "%"
    return (
        (text, unit)
        if unit in {"MHz", "Hz", "W", "C", "B"}
        else (f"{text} ({unit.lower()})" if unit else text, "")
    )


@dataclass(slots=True)
class _Series:
    time: list[I64] = field(default_factory=list)
    value: list[I64] = field(default_factory=list)


def read_gpu_metrics(reading: Reading, machine: Machine, ranks: dict[int, int]) -> None:
    """GPU_METRICS: one counter for each metric of each GPU."""
    table = reading.database.table("GPU_METRICS")
    if table is None or not {"timestamp", "typeId", "metricId", "value"} <= table.columns.keys():
        return
    labels = {
        (kind, metric): str(name)
        for kind, metric, name in reading.database.few(
            "TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName"
        )
    }
    series: dict[tuple[int, int], _Series] = {}
    columns = {
        "time": table.expression("timestamp", UNKNOWN),
        "type": table.expression("typeId", 0),
        "metric": table.expression("metricId", 0),
        "value": table.expression("value", 0),
    }
    for batch in reading.batches(table, columns, "reading GPU metrics"):
        for (kind, metric), rows in rows_by(np.stack([batch["type"], batch["metric"]], axis=1)):
            mine = rows[is_possible(batch["time"][rows])]
            one = series.setdefault((kind, metric), _Series())
            one.time.append(batch["time"][mine])
            one.value.append(batch["value"][mine])
        if len(series) > MAX_COUNTERS:
            raise Excessive("counters", MAX_COUNTERS)
    known = gpus_known_as(reading, machine, ranks)
    for (kind, metric), one in sorted(series.items()):
        number, rank = known.get(kind & 0xFF, (kind & 0xFF, None))
        name, unit = metric_name(labels.get((kind, metric), f"metric {metric}"))
        time, value = np.concatenate(one.time), np.concatenate(one.value).astype(np.float64)
        if unit == "MHz" and len(value) and value.max() > HERTZ_FROM:
            value /= 1e6
        add_counter(reading, f"GPU {number} {name}", unit, time, value, rank, number)


def gpus_known_as(
    reading: Reading, machine: Machine, ranks: dict[int, int]
) -> dict[int, tuple[int, int | None]]:
    """For each GPU of the machine the number by which the recorded process knows it, and that process's rank."""
    known: dict[int, tuple[int, int | None]] = {}
    for lane in reading.lanes:
        if lane.kind is LaneKind.GPU_STREAM:
            gpu = machine.gpu_number(lane.process, lane.device)
            known.setdefault(gpu, (lane.device, ranks.get(lane.process)))
    return known


def add_counter(
    reading: Reading, name: str, unit: str, time: I64, value: F64, rank: int | None, number: int | None
) -> None:
    """Add a counter of the GPU that a rank calls ``number``, or of none; those sampled together share their times."""
    if not len(time):
        return
    if np.any(np.diff(time) < 0):
        order = np.argsort(time, kind="stable")
        time, value = time[order], value[order]
    for known in reversed(reading.builder.counters[-64:]):
        if len(known.time) == len(time) and np.array_equal(known.time, time):
            time = known.time
            break
    device = None if number is None else reading.device_index(rank, number)
    reading.builder.counters.append(Counter(name, unit, time, value, rank, device))


Decode = Callable[[str], dict[str, float | int | str | None]]
_METRIC = regex(r"active|throughput|bandwidth|clock|warps|issue|utili[sz]ation|stall", re.IGNORECASE)


def read_generic_metrics(reading: Reading, machine: Machine, ranks: dict[int, int]) -> None:
    """GENERIC_EVENTS: before exports had GPU_METRICS, each sample was one JSON object of metric names and values."""
    database = reading.database
    table = database.table("GENERIC_EVENTS")
    if (
        table is None
        or database.table("GPU_METRICS")
        or not {"timestamp", "typeId", "data"} <= table.columns.keys()
    ):
        return
    reading.tables_read.add(table.name)
    series: dict[tuple[int, str], tuple[array[int], array[float]]] = {}
    other = 0
    decode = msgspec.json.Decoder(dict[str, float | int | str | None], strict=False).decode
    sql = f"SELECT timestamp, typeId, data FROM {quote(table.name)}"
    for time, kind, data in reading.streamed(sql, "reading GPU metrics"):
        values = (
            _numbers(decode, data)
            if isinstance(time, int) and isinstance(kind, int) and abs(time) < FARTHEST_NS
            else {}
        )
        other += not values
        for name, value in values.items():
            times, numbers = series.setdefault((int(kind), name), (array("q"), array("d")))
            times.append(time)
            numbers.append(value)
    known = gpus_known_as(reading, machine, ranks)
    for (kind, recorded), (times, numbers) in sorted(series.items()):
        number, rank = known.get(kind & 0xFF, (kind & 0xFF, None))
        name, unit = metric_name(recorded)
        clock = "clock" in name.lower()
        sampled = np.array(numbers, np.float64)
        if clock and sampled.max() > HERTZ_FROM:
            sampled /= 1e6
        unit = unit or ("MHz" if clock else "%")
        add_counter(reading, f"GPU {number} {name}", unit, np.array(times, np.int64), sampled, rank, number)
    reading.builder.quality.note(
        "not shown: GENERIC_EVENTS", Effect.NOTED, "Rows of tables that are not shown.", table.name, other
    )


def _numbers(decode: Decode, data: object) -> dict[str, float]:
    if not isinstance(data, str):
        return {}
    try:
        stated = decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    numbers: dict[str, float] = {}
    for name, value in stated.items():
        if _METRIC.search(name):
            try:
                number = float(value) if value is not None else math.nan
            except ValueError:
                continue
            if math.isfinite(number):
                numbers[name] = number
    return numbers


def read_network_metrics(reading: Reading) -> None:
    """NET_NIC_METRIC: one counter for each metric of each adapter."""
    database = reading.database
    table = database.table("NET_NIC_METRIC")
    needed = {"start", "globalId", "metricsListId", "metricsIdx", "value"}
    if table is None or not needed <= table.columns.keys():
        return
    names = {
        (group, index): (str(name or ""), str(unit or ""))
        for group, index, name, unit in database.few(
            "TARGET_INFO_NETWORK_METRICS", "metricsListId", "metricsIdx", "name", "unit"
        )
    }
    adapters = {nic: str(name) for nic, name in database.few("TARGET_INFO_NIC_INFO", "nicId", "name")}
    known = {number: adapters.get(nic, "") for nic, number in database.few("NIC_ID_MAP", "nicId", "globalId")}
    columns = {
        "time": table.expression("start", UNKNOWN),
        "adapter": table.expression("globalId", 0),
        "group": table.expression("metricsListId", 0),
        "index": table.expression("metricsIdx", 0),
        "value": table.expression("value", 0),
    }
    reading.tables_read.add(table.name)
    parts: dict[tuple[int, int, int], list[tuple[I64, I64]]] = {}
    try:
        for batch in database.batches(table, columns):
            keys = np.stack([batch["adapter"], batch["group"], batch["index"]], axis=1)
            for (adapter, group, index), rows in rows_by(keys):
                mine = rows[is_possible(batch["time"][rows])]
                parts.setdefault((adapter, group, index), []).append(
                    (batch["time"][mine], batch["value"][mine])
                )
    except TableDamaged as damage:
        reading.builder.quality.note(
            "damaged table", Effect.NOTED, "A table could not be read to its end.", f"{table.name}: {damage}"
        )
    for (adapter, group, index), some in sorted(parts.items()):
        name, unit = names.get((group, index), (f"metric {index}", ""))
        time, value = (np.concatenate(side) for side in zip(*some, strict=True))
        label = f"NIC {known.get(adapter) or adapter} {name}"
        add_counter(reading, label, unit, time, value.astype(np.float64), None, None)
