"""Compares traces, whichever way they came."""

from __future__ import annotations

import numpy as np

from parsers.model import Trace

_EVENT_COLUMNS = ("start", "end", "name", "lane", "depth", "kind", "source_row")
_PLAIN = ("strings", "lanes", "devices", "ranks", "inputs", "quality", "capture", "epoch_ns")
_OF_KERNEL = ("id", "name", "grid", "block", "metrics", "units", "instances", "rule_results", "device_name")


def assert_same(one: Trace, other: Trace) -> None:
    """Everything that can be seen of both is equal, the arguments of a few events included."""
    for name in _EVENT_COLUMNS:
        np.testing.assert_array_equal(getattr(one.events, name), getattr(other.events, name))
    np.testing.assert_array_equal(one.links.operation, other.links.operation)
    np.testing.assert_array_equal(one.links.launch, other.links.launch)
    assert list(one.attributes) == list(other.attributes)
    for which, column in one.attributes.items():
        np.testing.assert_array_equal(column.event, other.attributes[which].event)
        np.testing.assert_array_equal(column.value, other.attributes[which].value)
    for mine, its in zip(one.counters, other.counters, strict=True):
        assert (mine.name, mine.unit, mine.rank, mine.device) == (its.name, its.unit, its.rank, its.device)
        np.testing.assert_array_equal(mine.time, its.time)
        np.testing.assert_array_equal(mine.value, its.value)
    for kernel, same in zip(one.kernels, other.kernels, strict=True):
        for name in _OF_KERNEL:
            np.testing.assert_equal(getattr(kernel, name), getattr(same, name))
    for name in _PLAIN:
        assert getattr(one, name) == getattr(other, name)
    for event in range(0, len(one.events), max(len(one.events) // 5, 1)):
        assert one.arguments(event) == other.arguments(event)
