"""Counters: the allocator's samples, and counter events with whatever series they carry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from parsers.chrome.build.lanes import LaneMaker
from parsers.chrome.decode.collect import MemorySample
from parsers.chrome.decode.counters import Series
from parsers.chrome.decode.stated import whole_number
from parsers.chrome.decode.times import INVALID
from parsers.model import Counter

_CPU = 0  # c10::DeviceType
_FAR_NS = 10**12


def memory_counters(
    samples: Sequence[MemorySample], maker: LaneMaker, span: tuple[int, int] | None
) -> Iterable[Counter]:
    """Allocated and reserved bytes of each device."""
    by_device: dict[tuple[bool, int], list[MemorySample]] = defaultdict(list)
    for sample in samples:
        near = span is None or span[0] - _FAR_NS < sample.start < span[1] + _FAR_NS
        if sample.start != INVALID and near:
            on_cpu = sample.device_type == _CPU or sample.device < 0
            by_device[on_cpu, sample.device].append(sample)
    for (on_cpu, number), mine in sorted(by_device.items()):
        mine.sort(key=lambda sample: sample.start)
        time = np.array([sample.start for sample in mine], np.int64)
        device = None if on_cpu else maker.device(number)
        where = "CPU" if on_cpu else f"GPU {number}"
        for what in ("allocated", "reserved"):
            value = np.array([getattr(sample, what) for sample in mine], np.float64)
            if what == "allocated" or value.any():
                yield Counter(f"{where} {what} memory", "B", time, value, maker.rank, device)


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
        title = name if part in ("value", name, "") else f"{name} {part}"
        device = maker.device(number) if (number := _device_of(process)) is not None else None
        yield Counter(
            title,
            "",
            np.array([time for time, _ in near], np.int64),
            np.array([value for _, value in near], np.float64),
            maker.rank,
            device,
        )


def _device_of(process: str) -> int | None:
    return whole_number(process.upper().removeprefix("GPU")) if process.upper().startswith("GPU") else None
