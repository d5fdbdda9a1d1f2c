"""Recordings of very many threads, kernels and broken events: each is looked at a bounded number of times."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.chrome.decode import recovery
from parsers.model import EventKind, Lane, LaneKind
from parsers.model.builder import TraceBuilder
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.cpu.cpu_time import cpu_time
from rules.analysis.cpu.sampled_stacks import own_time
from rules.analysis.idle.threads import ThreadActivity, Threads
from rules.kernels.checks.speed_of_light import first_number, numbers
from tests.rules.builder import TinyTrace
from tests.rules.kernel_profiles import kernel

LANES = 300


def test_sampled_threads_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, whole, asked = TraceBuilder(), 0, []
    names = ("train.py(3): main", "train.py(9): load", "json/decoder.py(1): scan")
    for number in range(LANES):
        lane = builder.lane(Lane(LaneKind.SAMPLED_STACKS, f"thread {number}", thread=number))
        start, end = np.array([0, 10, 40]), np.array([100, 30, 50]) + np.array([number, 0, 0])
        for each, name in enumerate(names):
            builder.add(
                start[each : each + 1],
                end[each : each + 1],
                builder.string(name),
                lane,
                EventKind.SAMPLED_FRAME,
            )
        whole += 100 + number
    made = Innermost.nested

    def counting(*columns: np.ndarray) -> Innermost:
        asked.append(len(columns[0]))
        return made(*columns)

    monkeypatch.setattr(Innermost, "nested", staticmethod(counting))
    time = own_time(builder.build())
    assert asked == [3 * LANES, 2 * LANES, 0]  # all, the program's own, and those of the importer
    assert (time.sampled_ns, time.foreign_ns) == (whole, 0)
    by_function = {each.function: each for each in time.frames}
    assert by_function["load"].ns == 20 * LANES
    assert by_function["main"].ns == whole - 20 * LANES
    assert (by_function["main"].below, by_function["main"].below_ns) == ("scan", 10 * LANES)


@pytest.mark.parametrize("operator", [True, False])
def test_of_equally_busy_threads_one_is_looked_into(monkeypatch: pytest.MonkeyPatch, operator: bool) -> None:
    trace = TinyTrace()
    for number in range(LANES):
        add = trace.op if operator else trace.frame
        add(0, 100, "aten::mm" if operator else "train.py(3): main", number + 1)
    looked_into = []
    activity = Threads.activity

    def counting(threads: Threads, thread: int) -> ThreadActivity:
        looked_into.append(thread)
        return activity(threads, thread)

    monkeypatch.setattr(Threads, "activity", counting)
    assert cpu_time(Analysis(trace.build())) is not None
    assert len(looked_into) == 1


@pytest.mark.parametrize(
    ("data", "mendable"),
    [
        (b'{"ph" "X"}', False),
        (b'{"ph":"X","name":"a\tb"}', True),
        (b'{"ph":"X","ts":NaN}', True),
        (b'{"ph":"X",}', True),
        (b'{"ph":"X', True),
        (b'{"ph":"X","name":"\\q"}', True),
        (b'{"ph":"X","name":"\xff"}', True),
    ],
)
def test_broken_events_are_searched_for_repairs_only_where_there_may_be_one(
    data: bytes, mendable: bool
) -> None:
    assert recovery._is_mendable(data) is mendable


def test_checks_stop_at_the_first_metric_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = kernel({"b": 2.0})
    asked = []
    number = type(profile).number

    def counting(of: object, metric: str) -> float | None:
        asked.append(metric)
        return number(profile, metric)

    monkeypatch.setattr(type(profile), "number", counting)
    assert numbers(profile, "a", "b", "c") is None
    assert first_number(profile, "b", "c") == 2.0
    assert asked == ["a", "b"]
