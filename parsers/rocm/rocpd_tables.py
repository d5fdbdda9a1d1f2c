"""Reads the tables that ROCm's rocpd library writes: one set for each process, named with the process' GUID.

Source of the schema: ``rocpd_tables.sql`` of rocprofiler-sdk. Versions differ in where times and threads stand: in the
rows themselves, or in ``rocpd_timestamp`` and ``rocpd_track``, to which rows point.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import msgspec
import numpy as np

from parsers.files.decoders import UNREADABLE
from parsers.model import I64, Device, Effect, EventKind
from parsers.model.arrays import ABSENT, distinct_values, per_value, place_in, rows_by
from parsers.model.late import dataclass
from parsers.rocm.columns import DatabaseColumns
from parsers.rocm.timeline import (
    AMD_GPU,
    Calls,
    Operations,
    Timeline,
    direction_of,
    gpu_properties,
    is_marker,
    streams_or_queues,
    taken,
)
from parsers.sqlite.database import TableDamaged
from parsers.sqlite.row_source import source_rows
from parsers.sqlite.whole_columns import Columns

_NONE = np.empty(0, np.int64)
_MOMENTS = ("start", "end", "timestamp")
_PLACES = ("pid", "tid", "agent_id", "queue_id", "stream_id")
_NOT_SHOWN = ("rocpd_memory_allocate", "rocpd_pmc_event", "rocpd_gpu_pc_sample")


@dataclass(slots=True)
class ProcessTables:
    """The tables of one recorded process."""

    tables: DatabaseColumns
    timeline: Timeline
    rank: int | None
    _pointed_to: dict[str, Columns] = field(default_factory=dict)
    _agents: dict[int, Device] = field(default_factory=dict)
    _pids: dict[int, int] = field(default_factory=dict)
    _tids: dict[int, int] = field(default_factory=dict)

    def read(self) -> None:
        self._pids = {key: pid for key, pid in self._pairs("rocpd_info_process", "pid") if pid >= 0}
        self._tids = {key: tid for key, tid in self._pairs("rocpd_info_thread", "tid") if tid >= 0}
        self._read_agents()
        events = self.tables.read("rocpd_event", "id", "category_id", "stack_id")
        self._kernels(events)
        self._copies(events)
        self._calls(events)
        for name in _NOT_SHOWN:
            table = self.tables.table(name)
            rows = self.tables.database.size(table) if table is not None else 0
            self.timeline.builder.quality.note(
                "rows-not-shown", Effect.NOTED, "tables whose rows are not shown", f"{name}: {rows:,}", rows
            )

    def _pairs(self, name: str, column: str) -> list[tuple[int, int]]:
        return [
            (key, value)
            for key, value in self.tables.texts(name, "id", column)
            if isinstance(key, int) and isinstance(value, int)
        ]

    def _read_agents(self) -> None:
        columns = (
            "id", "type", "type_index", "logical_index", "product_name", "model_name", "name", "extdata",
        )  # fmt: skip
        for key, kind, index, _, *names, described in self.tables.texts("rocpd_info_agent", *columns):
            if kind != "GPU" or not isinstance(key, int):
                continue
            self._agents[key] = Device(
                index if isinstance(index, int) else len(self._agents),
                next((text for text in names if isinstance(text, str) and text), AMD_GPU),
                rank=self.rank,
                **gpu_properties(_object(described)),
            )

    def _device(self, agents: I64) -> I64:
        """The device of each agent that ran something; an agent that no row describes becomes one."""
        found = np.zeros(len(agents), np.int64)
        for agent, mine in rows_by(agents):
            unknown = Device(0 if agent == ABSENT else agent, AMD_GPU, self.rank)
            found[mine] = self.timeline.builder.device(self._agents.get(agent, unknown))
        return found

    def _rows(self, name: str, *columns: str) -> Columns:
        """The columns of a table, with the times and places that its rows state or point to."""
        pointers = [f"{moment}_id" for moment in _MOMENTS]
        rows = dict(self.tables.read(name, *_MOMENTS, *pointers, "track_id", *_PLACES, "event_id", *columns))
        for moment, pointer in zip(_MOMENTS, pointers, strict=True):
            rows[moment] = self._pointed(rows[moment], rows[pointer], "rocpd_timestamp", "value")
        for place in _PLACES:
            rows[place] = self._pointed(rows[place], rows["track_id"], "rocpd_track", place)
        rows["process"] = _renamed(rows["pid"], self._pids)
        rows["thread"] = _renamed(rows["tid"], self._tids)
        rows["source"] = source_rows(self.tables.number_of(name), rows["row"])
        return rows

    def _pointed(self, stated: I64, pointer: I64, name: str, column: str) -> I64:
        """The stated values, and where there are none those of the rows of another table that are pointed to."""
        if not np.any((stated == ABSENT) & (pointer != ABSENT)):
            return stated
        if name not in self._pointed_to:
            wanted = ("value",) if name == "rocpd_timestamp" else _PLACES
            self._pointed_to[name] = self.tables.read(name, "id", *wanted)
        target = self._pointed_to[name]
        found = taken(target[column], place_in(target["id"], pointer))
        return np.where(stated == ABSENT, found, stated)

    def _correlated(self, rows: Columns, events: Columns, column: str) -> I64:
        return taken(events[column], place_in(events["id"], rows["event_id"]))

    def _kernels(self, events: Columns) -> None:
        sizes = [f"{size}_size_{axis}" for size in ("grid", "workgroup") for axis in "xyz"]
        rows = self._rows("rocpd_kernel_dispatch", "kernel_id", "dispatch_id", *sizes)
        symbols = self.tables.texts(
            "rocpd_info_kernel_symbol", "id", "display_name", "kernel_name", "arch_vgpr_count"
        )
        titles = {key: str(shown or name or "") for key, shown, name, _ in symbols if isinstance(key, int)}
        registers = {
            key: count for key, _, _, count in symbols if isinstance(key, int) and isinstance(count, int)
        }
        ids, which = np.unique(rows["kernel_id"], return_inverse=True)
        names = self.timeline.names(titles.get(key, f"kernel {key}") for key in ids.tolist())
        vector = np.array([registers.get(key, ABSENT) for key in ids.tolist()], np.int64)
        device = self._device(rows["agent_id"])
        self.timeline.operations(
            Operations(
                rows["start"],
                rows["end"],
                names[which],
                device,
                streams_or_queues(device, rows["stream_id"], rows["queue_id"]),
                rows["process"],
                self._correlated(rows, events, "stack_id"),
                rows["source"],
                grid=np.stack([rows[size] for size in sizes[:3]], axis=1),
                block=np.stack([rows[size] for size in sizes[3:]], axis=1),
                registers=vector[which],
                number=rows["dispatch_id"],
            ),
            "rocpd_kernel_dispatch",
        )

    def _copies(self, events: Columns) -> None:
        rows = self._rows("rocpd_memory_copy", "name_id", "dst_agent_id", "src_agent_id", "size")
        ids, which = np.unique(rows["name_id"], return_inverse=True)
        texts = self.tables.strings(ids.tolist())
        described = [direction_of(texts[each]) for each in ids.tolist()]
        directions = np.array([direction.value for _, direction in described], np.int64)
        source, target = rows["src_agent_id"], rows["dst_agent_id"]
        device = self._device(np.where(np.isin(target, list(self._agents)), target, source))
        self.timeline.operations(
            Operations(
                rows["start"],
                rows["end"],
                self.timeline.names(name for name, _ in described)[which],
                device,
                np.where(rows["stream_id"] == ABSENT, rows["queue_id"], rows["stream_id"]),
                rows["process"],
                self._correlated(rows, events, "stack_id"),
                rows["source"],
                EventKind.MEMCPY,
                direction=directions[which],
                bytes=rows["size"],
            ),
            "rocpd_memory_copy",
        )

    def _calls(self, events: Columns) -> None:
        for name in ("rocpd_region", "rocpd_sample"):
            rows = self._rows(name, "name_id")
            categories = self._correlated(rows, events, "category_id")
            texts = self.tables.strings(distinct_values(categories).tolist())
            marked = [key for key, text in texts.items() if is_marker(text)]
            is_range = np.isin(categories, marked)
            if name == "rocpd_sample":
                rows = {**rows, "start": rows["timestamp"], "end": rows["timestamp"]}
            ids, which = np.unique(rows["name_id"], return_inverse=True)
            strings = self.tables.strings(ids.tolist())
            names = self.timeline.names(strings[each] for each in ids.tolist())[which]
            messages, message = self._messages(marked)
            place = place_in(messages, rows["event_id"])
            told = is_range & (place >= 0)
            names[told] = message[place[told]]
            self.timeline.calls(
                Calls(
                    rows["start"],
                    rows["end"],
                    names,
                    rows["process"],
                    rows["thread"],
                    self._correlated(rows, events, "stack_id"),
                    rows["source"],
                    is_range,
                ),
                name,
            )

    def _messages(self, categories: Sequence[int]) -> tuple[I64, I64]:
        """The events of these categories that carry a message, and the message as a string of the builder."""
        table = self.tables.table("rocpd_event")
        ids, messages = [_NONE], [_NONE]
        if table is None or not categories or "extdata" not in table:
            return _NONE, _NONE
        columns = {"id": table.expression("id", ABSENT), "text": table.expression("extdata", "")}
        where = f"category_id IN ({','.join(str(each) for each in categories)})"
        with contextlib.suppress(TableDamaged):
            for batch in self.tables.database.batches(table, columns, where):
                self.tables.progress.step(0.6, "reading ranges")
                coded = batch.text("text").dictionary_encode()
                texts = [_object(text).get("message") for text in coded.dictionary.cast("binary").to_pylist()]
                strings = np.array(
                    [self.timeline.builder.string(text) if isinstance(text, str) else -1 for text in texts],
                    np.int64,
                )
                found = strings[coded.indices.to_numpy()] if len(strings) else _NONE
                ids.append(batch["id"][found >= 0])
                messages.append(found[found >= 0])
        return np.concatenate(ids), np.concatenate(messages)


def _object(text: Any) -> Mapping[str, Any]:
    """A JSON object; empty where the text is none."""
    try:
        value = msgspec.json.decode(text) if isinstance(text, str | bytes) else {}
    except UNREADABLE:
        return {}
    return value if isinstance(value, dict) else {}


def _renamed(keys: I64, names: Mapping[int, int]) -> I64:
    """Each key's name; the key itself where it has none, 0 for ``ABSENT``."""
    return per_value(keys, lambda key: 0 if key == ABSENT else names.get(key, key))
