"""Sampled quantities: GPU metrics."""

from __future__ import annotations

import re
from dataclasses import field

import numpy as np

from parsers.model import F64, I64, Counter, Excessive, LaneKind
from parsers.model.arrays import rows_by
from parsers.model.builder import MAX_COUNTERS
from parsers.model.late import dataclass, regex
from parsers.model.units import name_and_unit
from parsers.nsys.identifiers import UNKNOWN, is_possible
from parsers.nsys.reading import Reading
from parsers.nsys.targets import Machine

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
