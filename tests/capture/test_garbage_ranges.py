"""Full collections of Python's garbage become ranges, and only while the recorder records."""

from __future__ import annotations

import gc

from viewer.capture.torch_runner.stallscope_recorder.ranges import GarbageRanges, Ranges


class Seen:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def install(self) -> None:
        self.calls.append("install")

    def remove(self) -> None:
        self.calls.append("remove")


def test_a_full_collection_is_a_range_and_a_partial_one_is_not() -> None:
    written: list[str] = []
    ranges = Ranges(lambda name: written.append(f"{name} begins"), lambda _: written.append("ends"))
    before = list(gc.callbacks)
    ranges.watch_with(GarbageRanges(ranges))
    assert gc.callbacks == before
    ranges.enabled = True
    try:
        gc.collect(0)
        gc.collect()
    finally:
        ranges.enabled = False
    gc.collect()
    assert (written, gc.callbacks) == (["Python GC begins", "ends"], before)


def test_what_watches_is_there_exactly_while_ranges_are_enabled() -> None:
    ranges, seen = Ranges(str, lambda _: None), Seen()
    ranges.watch_with(seen)
    with ranges.around("not recorded"):
        ranges.enabled = True
    ranges.enabled = True
    ranges.watch_with(seen)
    ranges.enabled = False
    assert seen.calls == ["install", "install", "remove", "remove"]
