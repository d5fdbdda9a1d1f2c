"""Numbers by which recordings are believed, aligned and limited, each with a case on either side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from parsers import data_marshal, preview
from parsers.chrome.build.counters import near_samples
from parsers.chrome.build.device_clock import move_device_clock
from parsers.files.base import Source
from parsers.model import Counter, Device, EventKind, Lane, LaneKind, QualityRecorder, ResultTable
from parsers.model.arrays import MAX_NUMBER
from parsers.model.builder import TraceBuilder, far_away, longest_plausible, main_cluster
from parsers.model.errors import Excessive
from parsers.model.names.kernels import similarity
from parsers.model.names.steps import numbered
from parsers.model.results import rows_shown
from parsers.ranks.rank_clocks import ClockOffset, Collectives, offset_between
from parsers.stacks import timeline
from parsers.xprof.call_threads import owners_of_calls

S, HOUR = 1_000_000_000, 3_600 * 1_000_000_000


def test_the_largest_number_that_is_believed_leaves_room_for_another_one() -> None:
    assert MAX_NUMBER == 4_611_686_018_427_387_904
    assert np.int64(MAX_NUMBER) + np.int64(MAX_NUMBER - 1) == np.iinfo(np.int64).max


@pytest.mark.parametrize(("gap_s", "last_s"), [(3_600, 3_600), (3_601, 0)])
def test_recordings_pause_an_hour_at_most(gap_s: int, last_s: int) -> None:
    start = np.array([0] * 30 + [gap_s]) * S
    assert main_cluster(start) == (0, last_s * S)


@pytest.mark.parametrize(("far", "belongs"), [(5, False), (6, True)])
def test_more_than_a_twentieth_of_the_events_is_no_accident(far: int, belongs: bool) -> None:
    """Of 100."""
    start = np.array([0] * (100 - far) + [10 * 3_600] * far) * S
    assert (main_cluster(start)[1] > 0) is belongs


def test_an_event_lasts_an_hour_or_twenty_times_as_long_as_all_start() -> None:
    assert longest_plausible(0, 100 * S) == HOUR
    assert longest_plausible(0, HOUR) == 20 * HOUR


@pytest.mark.parametrize(("lasts_s", "found"), [(3_599, False), (3_601, True)])
def test_an_event_of_more_than_an_hour_in_a_short_recording_is_damaged(lasts_s: int, found: bool) -> None:
    start = np.array([0, 1, 2]) * S
    assert (far_away(start, start + np.array([1, lasts_s, 1]) * S) is not None) is found


def lanes(builder: TraceBuilder, count: int) -> None:
    for number in range(count):
        builder.lane(Lane(LaneKind.CPU_THREAD, "", thread=number))


def gpus(builder: TraceBuilder, count: int) -> None:
    for number in range(count):
        builder.device(Device(number))


def counters(builder: TraceBuilder, count: int) -> None:
    none = np.empty(0, np.int64)
    builder.counters += [Counter("", "", none, none)] * count
    builder.build()


def tables(builder: TraceBuilder, count: int) -> None:
    builder.tables += [ResultTable("", (), ())] * count
    builder.build()


def levels(builder: TraceBuilder, count: int) -> None:
    lane = builder.lane(Lane(LaneKind.CPU_THREAD, ""))
    start = np.arange(count)
    builder.add(start, 2 * count - start, 0, lane, EventKind.CPU_OP)
    builder.build()


@pytest.mark.parametrize(
    ("make", "most"),
    [(lanes, 40_000), (gpus, 256), (counters, 10_000), (tables, 20_000), (levels, 32_000)],
    ids=["lanes", "GPUs", "counters", "tables", "levels"],
)
def test_a_recording_has_so_many_of_a_thing_at_most(
    make: Callable[[TraceBuilder, int], None], most: int
) -> None:
    with pytest.raises(Excessive) as refused:
        make(TraceBuilder(), most + 1)
    assert refused.value.args[1] == most


@pytest.mark.parametrize(
    ("delay_s", "moved"), [(-0.9, False), (-1.1, True), (3_599.0, False), (3_601.0, True)]
)
def test_the_clock_of_a_gpu_is_moved_that_is_a_second_early_or_an_hour_late(
    delay_s: float, moved: bool
) -> None:
    start = np.array([0, 1, 2, 3]) * S + np.array([0, 0, 1, 1]) * int((delay_s - 2) * S)
    kinds = np.array([EventKind.API, EventKind.API, EventKind.KERNEL, EventKind.KERNEL], np.uint8)
    before = start.copy()
    move_device_clock(start, kinds, np.arange(4), np.array([1, 2, 1, 2]), QualityRecorder())
    assert (start != before).any() == moved


@pytest.mark.parametrize(
    ("median_ns", "spread_ns", "clear"),
    [
        (50_001, 0, True),
        (49_999, 0, False),
        (-50_001, 0, True),
        (80_001, 10_000, True),
        (79_999, 10_000, False),
    ],
)
def test_clocks_differ_clearly_by_50_us_and_eight_times_the_spread(
    median_ns: int, spread_ns: int, clear: bool
) -> None:
    assert ClockOffset(median_ns, spread_ns, 8).is_clear_skew is clear


def meeting(count: int, offset_ns: int = 0, names: list[int] | None = None, from_: int = 0) -> Collectives:
    ends = np.cumsum(np.arange(1, count + from_ + 1) ** 2 * 1_000_000)[from_:] + offset_ns
    return Collectives(ends, np.array(names or [0] * count), np.zeros(count, np.int64))


@pytest.mark.parametrize(
    ("count", "known"),
    [(8, True), (7, False)],
    ids=["eight collectives", "seven, of recordings that overlap"],
)
def test_clocks_are_compared_by_eight_collectives(count: int, known: bool) -> None:
    assert (offset_between(meeting(count), meeting(count, 200_000)) is not None) is known


@pytest.mark.parametrize(("others", "known"), [(1, True), (2, False)])
def test_nine_of_ten_collectives_have_the_same_names(others: int, known: bool) -> None:
    names = [0] * (10 - others) + [1] * others
    found = offset_between(meeting(10), meeting(10, 200_000, names))
    assert (found is not None and found.median_ns == 200_000) is known


@pytest.mark.parametrize(("missed", "offset_ns"), [(128, 200_000), (129, None)])
def test_a_rank_may_miss_128_collectives_of_another_one(missed: int, offset_ns: int | None) -> None:
    found = offset_between(meeting(400), meeting(400 - missed, 200_000, from_=missed))
    assert found is not None
    assert (found.median_ns == offset_ns) is (offset_ns is not None)


@pytest.mark.parametrize(("inside", "known"), [(18, True), (17, False)])
def test_a_thread_made_calls_of_which_nine_tenths_lie_in_its_work(inside: int, known: bool) -> None:
    """Of 20."""
    begin = np.arange(20) * 100
    work = np.flatnonzero(np.arange(20) < inside)
    start = np.concatenate((begin + 20, begin[work]))
    end = np.concatenate((begin + 30, begin[work] + 50))
    thread = np.concatenate((np.zeros(20, np.int64), np.ones(inside, np.int64)))
    is_call = thread == 0
    assert owners_of_calls(start, end, thread, is_call, ~is_call) == ({0: 1} if known else {})


@pytest.mark.parametrize(
    ("size", "compression", "events"),
    [(40_000_000, "", 10_000), (44_000_000, "", 11_000), (4_000_000, "gzip", 12_000), (1, "", 10_000)],
)
def test_a_preview_looks_for_an_event_in_4000_bytes_but_for_10000_at_least(
    size: int, compression: str, events: int, tmp_path: Path
) -> None:
    path = tmp_path / "recording"
    with path.open("wb") as file:
        file.truncate(size)
    assert preview._worth_showing(Source(path, b"", compression)) == events


def test_a_preview_has_150000_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    class Parser:
        format, version = "acme", 1

        def preview(self, _: object, most_events: int, __: object) -> None:
            asked.append(most_events)

    path = tmp_path / "recording"
    with path.open("wb") as file:
        file.truncate(1 << 32)
    monkeypatch.setattr(preview, "parser_of", lambda _: Parser())
    monkeypatch.setattr(preview, "Previewing", Parser)
    monkeypatch.setattr(preview, "_sources", lambda path: [Source(cast(Any, path), b"")])
    monkeypatch.setattr(preview.cache, "holds", lambda *_: False)
    assert preview.open_preview([path]) is None
    assert asked == [150_000]


@pytest.mark.parametrize(("pause", "stands"), [(15, 15), (16, 10)])
def test_a_sample_stands_until_the_next_one_within_half_as_long_again(pause: int, stands: int) -> None:
    assert int(timeline.sample_ends(np.array([0, pause]), 10)[0]) == stands


@pytest.mark.parametrize(
    ("weights", "counted"),
    [
        ([10_001.0] * 10 + [10_003.0] * 9, True),  # of few stacks each may be seen as often
        ([10_001.0] * 10 + [10_003.0] * 10, False),
        ([9_999.0] * 10 + [10_003.0] * 9 + [1.0], True),
        ([259_200_000.0], True),  # a month of 100 a second
        ([259_200_001.0], False),
        ([1_998.0, 999.0], True),
        ([2_000.0, 1_000.0], False),  # multiples of a thousand
    ],
)
def test_weights_are_numbers_of_samples_where_they_can_be(weights: list[float], counted: bool) -> None:
    assert timeline.is_counted(weights) is counted


def test_samples_without_times_stand_for_10_ms() -> None:
    assert timeline.usual_distance([np.empty(0, np.int64)]) == 10_000_000


@pytest.mark.parametrize(("depth", "is_read"), [(16, True), (17, False)])
def test_saved_profiles_are_sixteen_deep_at_most(depth: int, is_read: bool) -> None:
    content = b")\x01" * depth + b"N"
    if is_read:
        assert data_marshal.loads(content) is not None
    else:
        with pytest.raises(data_marshal.NoData):
            data_marshal.loads(content)


@pytest.mark.parametrize(("digits", "is_read"), [(8, True), (9, False)])
def test_saved_numbers_have_eight_digits_of_fifteen_bits(digits: int, is_read: bool) -> None:
    content = b"l" + digits.to_bytes(4, "little") + b"\x01\x00" * digits
    if is_read:
        assert data_marshal.loads(content) == sum(1 << 15 * place for place in range(digits))
    else:
        with pytest.raises(data_marshal.NoData):
            data_marshal.loads(content)


def test_a_saved_profile_has_three_million_objects_at_most() -> None:
    assert data_marshal._Reader(b"")._left == 3_000_000


@pytest.mark.parametrize(("digits", "is_number"), [(18, True), (19, False)])
def test_a_step_has_a_number_of_eighteen_digits_at_most(digits: int, is_number: bool) -> None:
    assert (numbered(f"step {'1' * digits}") is not None) is is_number


@pytest.mark.parametrize(("rows", "shown"), [(5_000, 5_000), (5_001, 5_000)])
def test_a_table_shows_its_first_5000_rows(rows: int, shown: int) -> None:
    assert rows_shown(QualityRecorder(), rows) == shown


def test_a_name_alone_is_four_fifths_of_a_spelling() -> None:
    assert similarity("void ns::gemm<4>(int)", "gemm") == 0.8


@pytest.mark.parametrize(("late_s", "kept"), [(999, True), (1_001, False)])
def test_samples_belong_to_a_recording_that_are_a_thousand_seconds_off_at_most(
    late_s: int, kept: bool
) -> None:
    class Samples:
        start = np.array([late_s * S])

        def chosen(self, rows: Any) -> Any:
            return rows

    assert bool(len(cast(Any, near_samples(cast(Any, Samples()), (-S, 0))))) is kept
