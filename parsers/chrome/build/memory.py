"""Counters: the allocator's samples, and counter events with whatever series they carry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from parsers.chrome.build.lanes import LaneMaker
from parsers.chrome.decode.collect import MemorySample
from parsers.chrome.decode.times import INVALID
from parsers.model import Counter

_CPU = 0  # c10::DeviceType


def memory_counters(
    samples: Sequence[MemorySample], maker: LaneMaker, span: tuple[int, int] | None
) -> Iterable[Counter]:
    """Allocated and reserved bytes of each device."""
    by_device: dict[tuple[bool, int], list[MemorySample]] = defaultdict(list)
    for sample in samples:
        near = span is None or span[0] - 10**12 < sample.start < span[1] + 10**12
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
