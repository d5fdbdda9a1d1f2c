"""The memory that the driver gave a program: each allocation of a GPU's memory, and the totals over time."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from parsers.model import BOOL, I64, Effect, MemoryKind
from parsers.model.arrays import rows_by
from parsers.model.late import dataclass
from parsers.model.memory import BEFORE, Allocations, Blocks, Lives, Memory
from parsers.nsys.enumerations import memory_kinds
from parsers.nsys.metrics import add_counter
from parsers.nsys.reading import UNKNOWN, Reading, is_possible

_ALLOCATION = 0
_ON_DEVICE = {MemoryKind.DEVICE, MemoryKind.ARRAY}


@dataclass(frozen=True, slots=True, eq=False)
class _Changes:
    """What was asked for and given back, in any order: times in ns, sizes in bytes."""

    time: I64
    size: I64
    address: I64
    begins: BOOL

    @staticmethod
    def joined(parts: list[_Changes]) -> _Changes:
        order = np.argsort(np.concatenate([each.time for each in parts]), kind="stable")
        return _Changes(
            *(
                np.concatenate([getattr(each, name) for each in parts])[order]
                for name in ("time", "size", "address", "begins")
            )
        )


def read_memory_use(reading: Reading, ranks: dict[int, int]) -> None:
    """CUDA_GPU_MEMORY_USAGE_EVENTS: device memory held by each process, bytes."""
    merged = _changes(reading)
    for (process, device, what), parts in sorted(merged.items()):
        changes = _Changes.joined(parts)
        held = np.cumsum(np.where(changes.begins, changes.size, -changes.size)).astype(np.float64)
        if len(held) and held.min() < 0:
            held -= held.min()
            reading.builder.quality.note(
                "memory from before",
                Effect.REPAIRED,
                "Memory allocated before the recording was freed during it: the curve shows a lower bound.",
            )
        rank = ranks.get(process)
        add_counter(reading, f"GPU {device} {what}", "B", changes.time, held, rank, device)
        index = reading.device_index(rank, device)
        if what == "allocated memory" and index is not None and changes.address.any():
            reading.builder.memory.append(_memory(changes, index))


def _changes(reading: Reading) -> dict[tuple[int, int, str], list[_Changes]]:
    """By process, device and what the memory is called."""
    table = reading.database.table("CUDA_GPU_MEMORY_USAGE_EVENTS")
    if table is None or not {"start", "bytes", "memoryOperationType"} <= table.columns.keys():
        return {}
    kinds = memory_kinds(reading.database)
    columns = {
        "start": table.expression("start", UNKNOWN),
        "process": table.expression("globalPid", UNKNOWN),
        "device": table.expression("deviceId", 0),
        "kind": table.expression("memKind", 2),
        "bytes": table.expression("bytes", 0),
        "address": table.expression("address", 0),
        "operation": table.expression("memoryOperationType", _ALLOCATION),
    }
    found: dict[tuple[int, int, str], list[_Changes]] = defaultdict(list)
    for batch in reading.batches(table, columns, "reading memory use"):
        keys = np.stack([batch["process"], batch["device"], batch["kind"]], axis=1)
        for (process, device, kind), rows in rows_by(keys):
            mine = rows[is_possible(batch["start"][rows])]
            memory = kinds.get(kind, MemoryKind.UNKNOWN)
            what = "allocated memory" if memory in _ON_DEVICE else f"{memory.name.lower()} memory"
            found[process, device, what].append(
                _Changes(
                    batch["start"][mine],
                    batch["bytes"][mine],
                    batch["address"][mine],
                    batch["operation"][mine] == _ALLOCATION,
                )
            )
    return found


def _memory(changes: _Changes, device: int) -> Memory:
    """What the driver gave, as allocations; who asked is not recorded."""
    lives = Lives.of(changes.time, changes.address, changes.begins)
    count = len(lives.start)
    unknown = np.full(count, -1, np.int64)
    return Memory(
        Allocations.of(
            lives,
            np.maximum(changes.size[lives.event], 0),
            changes.address[lives.event],
            np.full(count, device, np.int64),
            unknown,
            unknown,
        ),
        Blocks.none(),
        (),
        np.zeros(1, np.int64),
        np.zeros(0, np.int32),
        (),
        (),
        not bool((lives.start == BEFORE).any()),
    )
