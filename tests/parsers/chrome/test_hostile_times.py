"""Impossible times are set aside and counted; the view stays on what was recorded."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from parsers.chrome.decode.times import nanoseconds
from parsers.model import Effect, EventKind
from tests.parsers.chrome.traces import (
    balanced,
    complete,
    kernel,
    launch,
    names,
    note,
    opened,
    text_of,
    trace_of,
)

WORK = [complete(f"op{number}", 4_361_799_000_000 + number * 10, 5) for number in range(40)]


def test_events_at_time_zero_do_not_stretch_the_view_to_1970(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, WORK + [complete("zero", 0, 0) for _ in range(2000)])
    assert len(trace.events) == 40
    assert trace.duration == 395_000
    assert note(trace, "far-away") == (2000, Effect.QUARANTINED)
    assert balanced(trace)


def test_gpu_activities_without_any_time_are_counted_apart(tmp_path: Path) -> None:
    blank = [
        event
        for number in range(7)
        for event in (kernel("gemm", 0, 0, number), launch(0, number, duration=0))
    ]
    trace = trace_of(tmp_path, [*WORK, *blank])
    assert trace.quality.gpu_work_without_times == 7
    assert note(trace, "no-time") == (7, Effect.QUARANTINED)
    assert "far-away" not in {each.kind for each in trace.quality.notes}
    assert len(trace.events) == 40
    assert balanced(trace)


def test_one_kernel_with_a_time_shows_that_the_profiler_gave_times(tmp_path: Path) -> None:
    blank = [kernel("gemm", 0, 0, number) for number in range(7)]
    trace = trace_of(tmp_path, [*WORK, *blank, kernel("gemm", WORK[3]["ts"], 4, 8)])
    assert trace.quality.gpu_work_without_times == 0
    assert note(trace, "far-away") == (7, Effect.QUARANTINED)


@pytest.mark.parametrize("stray", [-1_000_000_000, 4_361_799_000_000 * 1000, 1, 4_361_799_000_000 + 9e13])
def test_one_event_far_away_is_set_aside(tmp_path: Path, stray: float) -> None:
    trace = trace_of(tmp_path, [*WORK, complete("stray", stray, 1)])
    assert trace.duration == 395_000
    assert "stray" not in names(trace)
    assert trace.quality.quarantined == 1
    assert balanced(trace)


def test_a_pause_of_minutes_is_no_stray(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [*WORK, complete("late", 4_361_799_000_000 + 600_000_000, 1)])
    assert "late" in names(trace)
    assert trace.quality.quarantined == 0


@pytest.mark.parametrize("duration", [-5, 236 * 365 * 86_400 * 1e6, -9.3e18, "abc", None])
def test_an_impossible_duration_is_set_aside(tmp_path: Path, duration: object) -> None:
    trace = trace_of(tmp_path, [*WORK, complete("wrong", 4_361_799_000_050, duration)])
    assert trace.duration == 395_000
    assert note(trace, "no-duration") == (1, Effect.QUARANTINED)
    assert balanced(trace)


def test_a_complete_event_without_duration_is_set_aside(tmp_path: Path) -> None:
    broken = complete("wrong", 4_361_799_000_050, 1)
    del broken["dur"]
    trace = trace_of(tmp_path, [*WORK, broken])
    assert note(trace, "no-duration") == (1, Effect.QUARANTINED)


@pytest.mark.parametrize("time", ["soon", None, "", "1e400", [1]])
def test_an_event_without_a_usable_time_is_set_aside(tmp_path: Path, time: object) -> None:
    trace = trace_of(tmp_path, [*WORK, complete("wrong", time, 1)])
    assert len(trace.events) == 40
    assert note(trace, "no-time") == (1, Effect.QUARANTINED)
    assert balanced(trace)


@pytest.mark.parametrize(
    ("first", "second", "apart_ns"),
    [
        ("4361811480315.027", "4361811480315.028", 1),
        ("4458676522690.655", "4458676522690.709", 54),
        ("1712345678901234.567", "1712345678901234.568", 1),
        ('"1712345678901234.567"', '"1712345678901234.569"', 2),
        ("1712345678901234", "1712345678901235", 1000),
        ("4361811480315.5", "4361811480316.25", 750),
        ("1.5e3", "1501", 1000),
        ("-3", "-2.999", 1),
    ],
)
def test_times_are_exact_to_the_nanosecond(tmp_path: Path, first: str, second: str, apart_ns: int) -> None:
    text = (
        text_of([complete("a", 111, 0), complete("b", 222, 0)]).replace("111", first).replace("222", second)
    )
    trace = opened(tmp_path, text)
    assert np.ptp(trace.events.start) == apart_ns


@given(
    st.lists(
        st.builds(
            lambda whole, places, part: f"{whole}.{part:0{places}d}"[: len(str(whole)) + 1 + places].rstrip(
                "."
            ),
            st.integers(0, 999) | st.integers(4361800000000, 4361899999999),
            st.sampled_from((0, 3, 1, 2, 4)),
            st.integers(0, 9_999),
        ),
        min_size=1,
    )
)
@example(["1.500", "2.500", "3.250"])
@example(["10.50", "1.250"])
def test_times_read_together_are_those_of_each(texts: list[str]) -> None:
    exact = [int((Decimal(text) * 1000).to_integral_value()) for text in texts]
    assert nanoseconds([Raw(text.encode()) for text in texts]).tolist() == exact


def test_a_zero_length_kernel_inside_another_is_kept(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [kernel("long", 10, 50), kernel("point", 20, 0)])
    assert len(trace.gpu_operations) == 2
    assert sorted(trace.events.depth.tolist()) == [0, 1]


def test_partly_overlapping_kernels_of_one_stream_are_all_kept(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [kernel(f"k{number}", number * 10, 12) for number in range(20)])
    assert len(trace.gpu_operations) == 20
    assert trace.quality.repaired == 0


def overrunning(later: int) -> list[dict[str, object]]:
    return [kernel("overrun", 0, 5000)] + [
        kernel(f"k{number}", 10 + number * 10, 5) for number in range(later)
    ]


def test_a_kernel_that_runs_over_many_later_ones_is_clipped_and_both_durations_are_stated(
    tmp_path: Path,
) -> None:
    trace = trace_of(tmp_path, overrunning(8))
    event = trace.gpu_operations[[trace.name(int(each)) == "overrun" for each in trace.gpu_operations]][0]
    assert trace.events.duration[event] == 10_000
    example = next(each.example for each in trace.quality.notes if each.kind == "overrun")
    assert "recorded 5.00 ms" in example
    assert "shown 10.0 us" in example


def test_a_kernel_that_runs_over_fewer_later_ones_is_left_alone(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, overrunning(7))
    assert trace.events.duration.max() == 5_000_000
    assert trace.quality.repaired == 0


def test_a_kernel_that_begins_before_its_launch_is_reported(tmp_path: Path) -> None:
    events = [launch(100, 1), kernel("k", 90, 5, 1), launch(200, 2), kernel("k", 210, 5, 2)]
    trace = trace_of(tmp_path, events)
    assert note(trace, "before-launch") == (1, Effect.NOTED)


def test_a_gpu_clock_a_day_apart_is_moved_to_the_launches(tmp_path: Path) -> None:
    away = 1e11
    events = [each for number in range(50) for each in (
        launch(1000 + number * 100, number + 1), kernel("k", 1010 + number * 100 - away, 5, number + 1)
    )]  # fmt: skip
    trace = trace_of(tmp_path, events)
    assert len(trace.events) == 100
    assert trace.duration < 10_000_000
    assert note(trace, "device-clock") == (50, Effect.REPAIRED)
    delay = trace.events.start[trace.links.operation] - trace.events.start[trace.links.launch]
    assert delay.min() >= 0


def test_steps_that_overlap_other_ranges_are_found(tmp_path: Path) -> None:
    events = [
        complete("ProfilerStep#1", 0, 100, "user_annotation"),
        complete("outer", 50, 100, "user_annotation"),
        complete("ProfilerStep#2", 100, 100, "user_annotation"),
    ]
    trace = trace_of(tmp_path, events)
    assert len(trace.events.of_kind(EventKind.STEP)) == 2


def test_times_beyond_any_number_are_no_times(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [*WORK, complete("far", 9_999_999_999_999_999_999, 3)])
    assert len(trace.events) == 40
    only = trace_of(tmp_path, [*WORK, complete("far", 9_999_999_999_999_999_999, 3, "user_annotation")])
    assert note(only, "no-time") == (1, Effect.QUARANTINED)


@pytest.mark.parametrize(("first", "in_ns"), [(4_600_000_000_000_000, False), (4_620_000_000_000_000, True)])
def test_times_too_far_away_to_be_us_are_ns(tmp_path: Path, first: int, in_ns: bool) -> None:
    """2**62 ns are 4,611,686,018,427,388 us: more than a century after 1970."""
    trace = trace_of(tmp_path, [complete(f"op{each}", first + each * 4_000, 3_000) for each in range(5)])
    assert trace.duration == (19_000 if in_ns else 19_000_000)
    assert [each.kind for each in trace.quality.notes] == (["in-ns"] if in_ns else [])
    assert balanced(trace)


def test_times_of_which_only_some_are_too_far_away_stay_us(tmp_path: Path) -> None:
    far = [complete("far", 1_515_141_072_416_734_877, 3_000)]
    trace = trace_of(tmp_path, WORK + far)
    assert len(trace.events) == 40
