"""Counters: the allocator's samples and its allocations, and counter events with whatever series they carry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from parsers.chrome.build.lanes import LaneMaker
from parsers.chrome.decode.collect import Series
from parsers.chrome.decode.memory_samples import CPU, MemoryColumns
from parsers.chrome.decode.stated import whole_number
from parsers.chrome.decode.times import INVALID
from parsers.model import I64, Counter
from parsers.model.arrays import distinct_values, rows_by
from parsers.model.memory import AFTER, BEFORE, Allocations, Blocks, Lives, Memory
from parsers.model.units import name_and_unit

_FAR_NS = 10**12


def near_samples(samples: MemoryColumns, span: tuple[int, int] | None) -> MemoryColumns:
    """Those with a time, and not far outside of ``span`` (ns); in the order of their times."""
    near = samples.start != INVALID
    if span is not None:
        near &= (span[0] - _FAR_NS < samples.start) & (samples.start < span[1] + _FAR_NS)
    kept = np.flatnonzero(near)
    return samples.chosen(kept[np.argsort(samples.start[kept], kind="stable")])


def memory_counters(samples: MemoryColumns, maker: LaneMaker) -> Iterable[Counter]:
    """Allocated and reserved bytes of each device."""
    on_cpu = (samples.device_type == CPU) | (samples.device < 0)
    for (cpu, number), rows in rows_by(np.stack([on_cpu, samples.device], axis=1)):
        mine = samples.chosen(rows)
        device = None if cpu else maker.device(number)
        where = "CPU" if cpu else f"GPU {number}"
        for what, value in (("allocated", mine.allocated), ("reserved", mine.reserved)):
            if what == "allocated" or value.any():
                yield Counter(
                    f"{where} {what} memory", "B", mine.start, value.astype(np.float64), maker.rank, device
                )


def sampled_counters(series: Series, maker: LaneMaker, span: tuple[int, int] | None) -> Iterator[Counter]:
    """One counter for each series; samples far outside of ``span`` (ns) are left out."""
    for (pid, name, part), samples in series.samples.items():
        near = [
            sample for sample in samples if span is None or span[0] - _FAR_NS < sample[0] < span[1] + _FAR_NS
        ]
        if not near:
            continue
        near.sort(key=lambda sample: sample[0])
        process = maker.names.processes.get(pid, "")
        title, unit = name_and_unit(name if part in ("value", name, "") else f"{name} {part}")
        device = maker.device(number) if (number := _device_of(process)) is not None else None
        yield Counter(
            title,
            unit,
            np.array([time for time, _ in near], np.int64),
            np.array([value for _, value in near], np.float64),
            maker.rank,
            device,
        )


def _device_of(process: str) -> int | None:
    return whole_number(process.upper().removeprefix("GPU")) if process.upper().startswith("GPU") else None


def allocations_of(samples: MemoryColumns, maker: LaneMaker) -> Memory | None:
    """Every allocation of a GPU's memory, from samples in the order of their times; None where none has an address.

    What a GPU held before the recording and keeps is one allocation of its size, because the first total tells it.
    """
    stated = samples.chosen((samples.device_type != CPU) & (samples.device >= 0) & (samples.address != 0))
    numbers = distinct_values(stated.device).tolist()
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
