"""The tables of rocmProfileData: HIP calls, GPU operations, roctx ranges and monitored clocks and power."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping

import numpy as np

from parsers.model import Attribute, CopyKind, Counter, Device, EventKind, Lane, LaneKind, Progress
from parsers.model.arrays import ABSENT, BOOL, I32, I64, distinct_values, per_value, place_in, rows_by
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass
from parsers.rocm.columns import DatabaseColumns
from parsers.rocm.timeline import taken
from parsers.sqlite.database import Database
from parsers.sqlite.row_source import source_rows
from parsers.sqlite.whole_columns import Columns
from parsers.statements import state_capture

_FARTHEST_NS = -ABSENT // 2
_MARKER = "UserMarker"
_IN_WORK_ITEMS = ("hipExt", "hipHcc")  # these calls state the grid in work-items, the others in blocks
_COPIES = {"HostToDevice": CopyKind.H2D, "DeviceToHost": CopyKind.D2H, "DeviceToDevice": CopyKind.D2D}
_UNITS = {"sclk": "MHz", "mclk": "MHz", "power": "W", "temp": "C", "vram": "B", "util": "%"}


def read_into(database: Database, builder: TraceBuilder, progress: Progress) -> None:
    """Put all that a database holds into a trace; raises ``TraceError`` where it cannot be used."""
    _Recording(DatabaseColumns(database, builder.quality, progress), builder).read()


@dataclass(slots=True)
class _Recording:
    tables: DatabaseColumns
    builder: TraceBuilder

    def read(self) -> None:
        calls = self.tables.read("rocpd_api", "id", "pid", "tid", "start", "end", "apiName_id", "args_id")
        operations = self.tables.read(
            "rocpd_op", "id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"
        )
        pairs = self.tables.read("rocpd_api_ops", "api_id", "op_id")
        call_events = self._calls(calls)
        launched_by = place_in(pairs["op_id"], operations["id"])
        call = (
            np.where(launched_by >= 0, pairs["api_id"][np.maximum(launched_by, 0)], ABSENT)
            if len(pairs["row"])
            else launched_by
        )
        events = self._operations(operations, call, calls)
        launch = place_in(calls["id"], call)
        linked = (launch >= 0) & (events >= 0)
        linked[linked] = call_events[launch[linked]] >= 0
        self.builder.link(events[linked], call_events[launch[linked]])
        self._monitors()
        state_capture(self.builder)

    def _usable(self, rows: Columns, table: str) -> BOOL:
        start, end = rows["start"], rows["end"]
        good = (start > -_FARTHEST_NS) & (end >= start) & (end < _FARTHEST_NS)
        self.builder.quality.read_times(good, lambda index: f"{table} row {int(rows['row'][index])}")
        return good

    def _calls(self, calls: Columns) -> I64:
        """Event number of each row; -1 for rows that are left out."""
        good = self._usable(calls, "rocpd_api")
        texts = self.tables.strings(distinct_values(calls["apiName_id"]).tolist())
        is_marker = np.isin(calls["apiName_id"], [key for key, text in texts.items() if text == _MARKER])
        messages = self.tables.strings(distinct_values(calls["args_id"][is_marker]).tolist())
        numbers = np.full(len(good), -1, np.int64)
        rows = source_rows(self.tables.number_of("rocpd_api"), calls["row"])
        for chosen, lane_kind, kind, ids, named, words in (
            (good & ~is_marker, LaneKind.CUDA_API, EventKind.API, "apiName_id", texts, "HIP calls"),
            (good & is_marker, LaneKind.REGION, EventKind.REGION, "args_id", messages, "regions"),
        ):
            lane = np.empty(int(chosen.sum()), np.int32)
            threads = np.stack([calls["pid"][chosen], calls["tid"][chosen]], axis=1)
            for (process, thread), mine in rows_by(threads):
                name = ("Main thread" if process == thread else f"Thread {thread}") + f" {words}"
                index = self.builder.lane(Lane(lane_kind, name, process=process, thread=thread))
                lane[mine] = index
            numbers[chosen] = self.builder.add(
                calls["start"][chosen],
                calls["end"][chosen],
                self._names(calls[ids][chosen], named),
                lane,
                kind,
                rows[chosen],
            )
        return numbers

    def _names(self, ids: I64, texts: Mapping[int, str]) -> I32:
        return per_value(ids, lambda value: self.builder.string(texts.get(value) or "(no name)"), np.int32)

    def _operations(self, rows: Columns, call: I64, calls: Columns) -> I64:
        good = self._usable(rows, "rocpd_op")
        kernels = self.tables.read(
            "rocpd_kernelapi",
            "api_ptr_id",
            "kernelName_id",
            *(f"{size}{axis}" for size in ("grid", "workgroup") for axis in "XYZ"),
        )
        copies = self.tables.read("rocpd_copyapi", "api_ptr_id", "size")
        kernel, copy = place_in(kernels["api_ptr_id"], call), place_in(copies["api_ptr_id"], call)
        name_ids = taken(kernels["kernelName_id"], kernel)
        texts = self.tables.strings(
            distinct_values(np.concatenate((rows["description_id"], rows["opType_id"], name_ids))).tolist()
        )
        lane = np.empty(len(good), np.int32)
        places = np.stack([rows["gpuId"], rows["queueId"]], axis=1)
        for (gpu, queue), mine in rows_by(places):
            device = self.builder.device(Device(gpu))
            index = self.builder.lane(
                Lane(LaneKind.GPU_STREAM, f"GPU {gpu} queue {queue}", device=device, stream=queue)
            )
            lane[mine] = index
        keys = np.stack([rows["description_id"], rows["opType_id"], name_ids], axis=1)
        distinct, codes = np.unique(keys, axis=0, return_inverse=True)
        described = [_described(texts[a], texts[b], texts[c]) for a, b, c in distinct.tolist()]
        names = np.array([self.builder.string(name) for name, _, _ in described], np.int32)
        kinds = np.array([kind for _, kind, _ in described], np.uint8)
        directions = np.array([direction.value for _, _, direction in described], np.int64)
        codes = codes.reshape(-1)
        source = source_rows(self.tables.number_of("rocpd_op"), rows["row"])
        numbers = np.full(len(good), -1, np.int64)
        if not len(described):
            return numbers
        numbers[good] = self.builder.add(
            rows["start"][good],
            rows["end"][good],
            names[codes][good],
            lane[good],
            kinds[codes][good],
            source[good],
        )
        copied = good & (kinds[codes] == EventKind.MEMCPY)
        self.builder.attribute(Attribute.COPY_KIND, numbers[copied], directions[codes][copied])
        sized = good & (copy >= 0)
        self.builder.attribute(Attribute.BYTES, numbers[sized], copies["size"][copy[sized]])
        shaped = good & (kernel >= 0) & (kinds[codes] == EventKind.KERNEL)
        self._shapes(numbers[shaped], kernels, kernel[shaped], call[shaped], calls)
        return numbers

    def _shapes(self, events: I64, kernels: Columns, kernel: I64, call: I64, calls: Columns) -> None:
        grid, block = (
            np.stack([np.maximum(kernels[f"{size}{axis}"][kernel], 1) for axis in "XYZ"], axis=1)
            for size in ("grid", "workgroup")
        )
        names = taken(calls["apiName_id"], place_in(calls["id"], call))
        texts = self.tables.strings(distinct_values(names).tolist())
        in_items = np.isin(names, [key for key, text in texts.items() if text.startswith(_IN_WORK_ITEMS)])
        grid = np.where(in_items[:, None], -(-grid // block), grid)
        for shape, size, text in (
            (grid, Attribute.GRID, Attribute.GRID_SHAPE),
            (block, Attribute.BLOCK, Attribute.BLOCK_SHAPE),
        ):
            self.builder.attribute(size, events, shape.prod(axis=1))
            written = [self.builder.string(",".join(map(str, each))) for each in shape.tolist()]
            self.builder.attribute(text, events, np.array(written, np.int64))

    def _monitors(self) -> None:
        columns = ("deviceType", "deviceId", "monitorType", "start", "end", "value")
        series: dict[tuple[int, str], list[tuple[int, float]]] = {}
        for kind, number, what, start, _, value in self.tables.texts("rocpd_monitor", *columns):
            if kind != "gpu" or not isinstance(number, int) or not isinstance(start, int):
                continue
            if abs(start) >= _FARTHEST_NS:
                continue
            with contextlib.suppress(ValueError):
                reading = float(str(value))
                if math.isfinite(reading):
                    series.setdefault((number, str(what)), []).append((start, reading))
        places = {each.id: place for place, each in reversed(list(enumerate(self.builder.devices)))}
        for (number, what), samples in sorted(series.items()):
            samples.sort()
            time, values = (np.array(side) for side in zip(*samples, strict=True))
            unit = next((unit for word, unit in _UNITS.items() if word in what.lower()), "")
            device = places.get(number)
            counter = Counter(
                f"GPU {number} {what}", unit, time.astype(np.int64), values.astype(np.float64), device=device
            )
            self.builder.counters.append(counter)


def _described(description: str, operation: str, kernel: str) -> tuple[str, EventKind, CopyKind]:
    if operation.startswith("Copy"):
        direction = next((kind for word, kind in _COPIES.items() if word in operation), CopyKind.UNKNOWN)
        short = {CopyKind.H2D: "HtoD", CopyKind.D2H: "DtoH", CopyKind.D2D: "DtoD"}.get(direction, operation)
        return f"Memcpy {short}", EventKind.MEMCPY, direction
    if operation.startswith("Fill"):
        return "Memset (Device)", EventKind.MEMSET, CopyKind.UNKNOWN
    return description or kernel or operation or "(no name)", EventKind.KERNEL, CopyKind.UNKNOWN
