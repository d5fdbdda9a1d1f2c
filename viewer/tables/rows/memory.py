"""The table of allocations: what was asked of a GPU's memory, when, by whom, and what for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from parsers.model import Trace
from parsers.model.memory import AFTER, BEFORE, Memory
from rules.analysis.analysis import Analysis
from rules.memory.account import DeviceMemory
from rules.memory.kinds import KINDS, own_frames
from rules.memory.operators import MODULE, modules_of, operators_of
from rules.memory.summary import memory_of
from viewer.tables.columns import DEVICE, RANK, known, names_of, of_devices, texts
from viewer.tables.table import Column, RowTable, row_table

_KINDS = tuple(each.value for each in KINDS)


@row_table
class Allocations(RowTable):
    """Of each GPU the record that tells most: a snapshot, else what the profiler saw."""

    name: ClassVar[str] = "allocations"
    about: ClassVar[str] = "one GPU memory allocation"
    columns: ClassVar[tuple[Column, ...]] = (
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
    import pandas as pd

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
