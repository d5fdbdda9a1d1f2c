"""Full collections of Python's garbage become ranges, and only while the recorder records."""

from __future__ import annotations

import gc

from viewer.capture.torch_runner.stallscope_recorder.ranges import GarbageRanges, Ranges


def test_a_full_collection_is_a_range_and_a_partial_one_is_not() -> None:
    written: list[str] = []
    ranges = Ranges(lambda name: written.append(f"{name} begins"), lambda _: written.append("ends"))
    garbage = GarbageRanges(ranges)
    garbage.install()
    try:
        gc.collect()
        ranges.enabled = True
        gc.collect(0)
        gc.collect()
    finally:
        garbage.remove()
    gc.collect()
    assert written == ["Python GC begins", "ends"]
    garbage.remove()
