"""The allocations of GPU memory that Kineto recorded, each with the thread that asked for it."""

from __future__ import annotations

import numpy as np

from parsers.chrome.build.lanes import LaneMaker
from parsers.chrome.decode.memory_samples import CPU, MemoryColumns
from parsers.model.arrays import I64
from parsers.model.memory import AFTER, BEFORE, Allocations, Blocks, Lives, Memory


def allocations_of(samples: MemoryColumns, maker: LaneMaker) -> Memory | None:
    """Every allocation of a GPU's memory, from samples in the order of their times; None where none has an address.

    What a GPU held before the recording and keeps is one allocation of its size, because the first total tells it.
    """
    stated = samples.chosen((samples.device_type != CPU) & (samples.device >= 0) & (samples.address != 0))
    numbers = np.unique(stated.device).tolist()
    parts = [_of_device(stated.chosen(stated.device == number), maker.device(number)) for number in numbers]
    if not parts:
        return None
    start, end, size, address, device, thread = (
        np.concatenate([part[each] for part in parts]) for each in range(6)
    )
    nothing = np.zeros(0, np.int64)
    return Memory(
        Allocations.of(
            Lives(start, end, nothing), size, address, device, np.full(len(start), -1, np.int32), thread
        ),
        Blocks.none(),
        (),
        np.zeros(1, np.int64),
        np.zeros(0, np.int32),
        (),
        (),
        not bool((start == BEFORE).any()),
    )


def _of_device(samples: MemoryColumns, device: int) -> tuple[I64, ...]:
    """Start, end, size, address, device and thread of each allocation of one device; ``samples`` are in order."""
    lives = Lives.of(samples.start, samples.address, samples.bytes > 0)
    size, address = np.abs(samples.bytes[lives.event]), samples.address[lives.event]
    thread = np.where(lives.start == BEFORE, -1, samples.thread[lives.event])
    held_at_first = int(samples.allocated[0] - samples.bytes[0])
    older = held_at_first - int(size[lives.start == BEFORE].sum())
    columns = (lives.start, lives.end, size, address, np.full(len(size), device, np.int64), thread)
    if older <= 0:
        return columns
    kept = (BEFORE, AFTER, older, 0, device, -1)
    return tuple(np.append(column, value) for column, value in zip(columns, kept, strict=True))
