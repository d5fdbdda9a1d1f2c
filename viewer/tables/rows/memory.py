"""The tables of memory: its allocations, what the allocator held, and counters, which are sampled as that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from parsers.model import Trace
from parsers.model.memory import AFTER, BEFORE, Memory
from rules.analysis.analysis import Analysis
from rules.memory.account import DeviceMemory
from rules.memory.kinds import KINDS, own_frames
from rules.memory.operators import MODULE, modules_of, operators_of
from rules.memory.summary import memory_of
from viewer.tables.columns import DEVICE, RANK, columns, known, names_of, of_devices, optional, texts
from viewer.tables.table import Column, RowTable, row_table


@row_table
class Counters(RowTable):
    """A value holds until the next one of its counter."""

    name = "counters"
    about = "one sample of one counter"
    columns = (
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
    """Where single allocations were recorded; the totals that others record are in ``counters``."""

    name = "memory"
    about = "one GPU memory allocation, from the allocator's history or a snapshot"
    columns = (
        Column("start_ns", "when it was allocated; empty where it is older than the history"),
        Column("end_ns", "when it was freed; empty where it was still held"),
        Column("size_bytes", "as the allocator counts it"),
        Column("kind", f"one of {', '.join(kind.value for kind in KINDS)}"),
        Column("function", "the program's own function that made it"),
        Column("line", 'where, as "file:line"'),
        RANK,
        DEVICE,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        parts = [
            _allocations(analysis, each.account) for each in memory_of(analysis) if each.account is not None
        ]
        return _in_columns(parts, [column.name for column in self.columns])


def _allocations(analysis: Analysis, account: DeviceMemory) -> Mapping[str, Any]:
    memory, mine = account.memory, np.flatnonzero(account.mine)
    held, own = memory.allocations, own_frames(memory)
    start, end, stack = held.start[mine], held.end[mine], held.stack[mine]
    frame = np.where(stack >= 0, own[stack], -1) if len(own) else np.full(len(stack), -1)
    return columns(
        {
            "start_ns": known(start, start == BEFORE),
            "end_ns": known(end, end == AFTER),
            "size_bytes": held.size[mine],
            "kind": texts(account.kind[mine].astype(np.int64), [kind.value for kind in KINDS]),
            "function": texts(frame, [each.function for each in memory.frames]),
            "line": texts(frame, [f"{each.file}:{each.line}" for each in memory.frames]),
        },
        of_devices(analysis.trace, held.device[mine]),
    )


def _in_columns(parts: list[Mapping[str, Any]], names: list[str]) -> Mapping[str, Any]:
    """The columns of several processes below one another."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return {name: np.empty(0, np.int64) for name in names}
    words = {"kind": object, "function": object, "line": object}
    frames = pd.concat([pd.DataFrame(part).astype(words) for part in parts])
    return {name: frames[name].array for name in names}


_KINDS = tuple(each.value for each in KINDS)


@row_table
class Allocations(RowTable):
    """Of each GPU the record that tells most: a snapshot, else what the profiler saw."""

    name = "allocations"
    about = "one GPU memory allocation"
    columns = (
        Column("start_ns", "when it was made; empty where it is older than the recording"),
        Column("end_ns", "when it was given back; empty where it was held to the end"),
        Column("size_bytes", "as the allocator counts it"),
        Column("kind", "what it is for, as far as stacks and operators tell"),
        Column("function", "the innermost function of the program's own code, where stacks were recorded"),
        Column("file", "its file"),
        Column("line", "and line"),
        Column("stack", "number of the stack that asked for it: the same for the same stack"),
        Column("module", "innermost module it ran in, if the timeline shows it"),
        Column("operator", "the operator or region that asked for it, if the timeline shows it"),
        RANK,
        DEVICE,
        Column("address", "where it lay"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        accounts = [each.account for each in memory_of(analysis) if each.account is not None]
        parts = [_rows(analysis.trace, each) for each in accounts]
        if not parts:
            return {column.name: np.zeros(0, np.int64) for column in self.columns}
        return {column.name: _joined([part[column.name] for part in parts]) for column in self.columns}


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]

    return pd.concat([pd.Series(each) for each in parts], ignore_index=True).array


def _rows(trace: Trace, account: DeviceMemory) -> dict[str, Any]:
    memory, mine = account.memory, np.flatnonzero(account.mine)
    table = memory.allocations
    start, end = table.start[mine], table.end[mine]
    frame = _frames(memory, table.stack[mine].astype(np.int64))
    line = np.array([*(each.line for each in memory.frames), -1], np.int64)[frame]
    around = modules_of(trace, memory)[mine]
    module = np.full(len(around), -1, np.int64)
    module[around >= 0] = trace.events.name[around[around >= 0]]
    return {
        "start_ns": known(start, start == BEFORE),
        "end_ns": known(end, end == AFTER),
        "size_bytes": table.size[mine],
        "kind": texts(account.kind[mine].astype(np.int64), _KINDS),
        "function": texts(frame, tuple(each.function for each in memory.frames)),
        "file": texts(frame, tuple(each.file for each in memory.frames)),
        "line": known(line, frame < 0),
        "stack": known(table.stack[mine].astype(np.int64)),
        "module": texts(module, [name.removeprefix(MODULE) for name in trace.strings]),
        "operator": names_of(trace, operators_of(trace, memory)[mine]),
        **of_devices(trace, table.device[mine]),
        "address": table.address[mine],
    }


def _frames(memory: Memory, stack: np.ndarray) -> np.ndarray:
    own = np.append(own_frames(memory), -1).astype(np.int64)
    found: np.ndarray = own[stack]
    return found
