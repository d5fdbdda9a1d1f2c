"""The tables of counters, and of what the allocator of a GPU's memory held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from parsers.model.memory import AFTER, BEFORE
from rules.analysis.analysis import Analysis
from rules.memory.kinds import KINDS, kinds_of, own_frames
from viewer.tables.columns import DEVICE, RANK, columns, known, of_devices, optional, texts
from viewer.tables.table import Column, RowTable, row_table


@row_table
class Counters(RowTable):
    """A value holds until the next one of its counter."""

    name: ClassVar[str] = "counters"
    about: ClassVar[str] = "one sample of one counter"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "name of the counter"),
        Column("unit", "unit of the value"),
        Column("time_ns", "when it was sampled"),
        Column("value", "in that unit"),
        RANK,
        DEVICE,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        counters = analysis.trace.counters
        counts = np.array([len(each.time) for each in counters], np.int64)
        which = np.repeat(np.arange(len(counters)), counts)
        device = np.array([-1 if each.device is None else each.device for each in counters], np.int64)[which]
        places = of_devices(analysis.trace, device)
        rank = optional([each.rank for each in counters])[which]
        empty_times, empty_values = np.empty(0, np.int64), np.empty(0)
        return {
            "name": texts(which, [each.name for each in counters]),
            "unit": texts(which, [each.unit for each in counters]),
            "time_ns": np.concatenate([empty_times, *(each.time for each in counters)]),
            "value": np.concatenate([empty_values, *(each.value for each in counters)]),
            "rank": known(rank),
            "device": places["device"],
        }


@row_table
class MemoryAllocations(RowTable):
    """Only snapshots of the allocator hold these; counters of memory are in ``counters``."""

    name: ClassVar[str] = "memory"
    about: ClassVar[str] = "one allocation of a GPU's memory, from the allocator's snapshot"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("start_ns", "when it was allocated; nothing where it is older than the history"),
        Column("end_ns", "when it was freed; nothing where it was still held"),
        Column("size_bytes", "as the allocator counts it"),
        Column("kind", f"one of {', '.join(kind.value for kind in KINDS)}"),
        Column("function", "the program's own function that made it"),
        Column("line", 'where, as "file:line"'),
        RANK,
        DEVICE,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        parts: list[Mapping[str, Any]] = []
        for memory in analysis.trace.memory:
            held, own = memory.allocations, own_frames(memory)
            stack = held.stack
            frame = np.where(stack >= 0, own[stack], -1) if len(own) else np.full(len(stack), -1)
            functions = [each.function for each in memory.frames]
            lines = [f"{each.file}:{each.line}" for each in memory.frames]
            parts.append(
                columns(
                    {
                        "start_ns": known(held.start, held.start == BEFORE),
                        "end_ns": known(held.end, held.end == AFTER),
                        "size_bytes": held.size,
                        "kind": texts(kinds_of(memory).astype(np.int64), [kind.value for kind in KINDS]),
                        "function": texts(frame, functions),
                        "line": texts(frame, lines),
                    },
                    of_devices(analysis.trace, held.device),
                )
            )
        return _joined(parts, [column.name for column in self.columns])


def _joined(parts: list[Mapping[str, Any]], names: list[str]) -> Mapping[str, Any]:
    """The columns of several processes below one another."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return {name: np.empty(0, np.int64) for name in names}
    words = {"kind": object, "function": object, "line": object}
    frames = pd.concat([pd.DataFrame(part).astype(words) for part in parts])
    return {name: frames[name].array for name in names}
