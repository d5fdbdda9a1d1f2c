"""Which tracks there are, where they lie, and how an arrangement changes that."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from parsers.model import Counter, Device, EventKind, Lane, LaneKind, Rank, Trace
from parsers.model.builder import TraceBuilder
from viewer.timeline.gap_labels import MIN_NOTE_HEIGHT
from viewer.timeline.geometry.arrangement import Arrangement, GroupState, LaneFilter
from viewer.timeline.geometry.layout import COLLAPSED, COMPACT, FOOT, Layout, lay_out
from viewer.timeline.geometry.tracks import Group, groups
from viewer.timeline.kinds.base import Place


def several_ranks(count: int, threads: int = 1) -> Trace:
    """Some threads, one compute stream and one communication stream a rank."""
    builder = TraceBuilder()
    one = np.array([0, 100, 200], np.int64)
    for rank in range(count):
        builder.ranks.append(Rank(rank, count))
        device = builder.device(Device(rank, "GPU", rank=rank))
        thread = builder.lane(Lane(LaneKind.CPU_THREAD, "Main thread", rank=rank, process=1, thread=1))
        compute = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", rank=rank, device=device, stream=7))
        nccl = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 9", rank=rank, device=device, stream=9))
        calls = builder.add(one, one + 10, builder.string("op"), thread, EventKind.CPU_OP)
        for other in range(2, threads + 1):
            lane = builder.lane(
                Lane(LaneKind.CPU_THREAD, f"Thread {other}", rank=rank, process=1, thread=other)
            )
            builder.add(one, one + 5, builder.string("op"), lane, EventKind.CPU_OP)
        kernels = builder.add(one + 20, one + 80, builder.string("gemm"), compute, EventKind.KERNEL)
        builder.add(one + 30, one + 60, builder.string("ncclDevKernel_AllReduce"), nccl, EventKind.KERNEL)
        builder.link(kernels, calls)
    return builder.build()


def titles(layout: Layout) -> list[str]:
    return [placed.track.title for placed in layout.scrolled]


def contiguous(layout: Layout) -> bool:
    edges = [(placed.top, placed.bottom) for placed in layout.scrolled]
    return all(before[1] == after[0] for before, after in itertools.pairwise(edges))


def test_a_run_reads_from_regions_over_operators_and_calls_to_the_gpu(small_run: Trace) -> None:
    (group,) = groups(small_run)
    assert [track.title for track in group.tracks] == [
        "Regions",
        "Main thread",
        "CUDA API",
        "GPU 0 · stream 7",
        "GPU memory",
        "Profiler",
    ]
    stream = group.tracks[3]
    assert stream.first_of_device
    assert stream.subtitle == "GPU"


def test_lanes_of_no_process_belong_to_the_only_process_that_launches(small_run: Trace) -> None:
    assert len(groups(small_run)) == 1


def test_empty_and_step_lanes_are_no_tracks_and_overhead_starts_folded(small_run: Trace) -> None:
    (group,) = groups(small_run)
    assert all(track.kind is not LaneKind.STEPS for track in group.tracks)
    overhead = group.tracks[-1]
    assert overhead.place is Place.ASIDE
    placed = lay_out([group], Arrangement()).find(overhead.key)
    assert placed is not None
    assert placed.collapsed
    assert placed.height == COLLAPSED


def test_a_single_group_has_no_heading_and_tracks_touch(small_run: Trace) -> None:
    layout = lay_out(groups(small_run), Arrangement())
    assert not any(placed.track.is_heading for placed in layout.scrolled)
    assert contiguous(layout)
    assert layout.scrolled_height == sum(placed.height for placed in layout.scrolled)


@pytest.mark.parametrize(
    ("ranks", "state"), [(2, GroupState.BRIEF), (4, GroupState.BRIEF), (5, GroupState.STRIP)]
)
def test_several_ranks_start_small_enough_to_see_them_all(ranks: int, state: GroupState) -> None:
    found = groups(several_ranks(ranks, threads=12))
    assert [group.title for group in found] == [f"Rank {rank}" for rank in range(ranks)]
    layout = lay_out(found, Arrangement())
    headings = [placed for placed in layout.scrolled if placed.track.is_heading]
    assert [heading.state for heading in headings] == [state] * ranks
    assert layout.scrolled_height <= 620
    assert contiguous(layout)


def test_ranks_with_few_lanes_are_shown_in_full() -> None:
    layout = lay_out(groups(several_ranks(2)), Arrangement())
    assert titles(layout).count("Main thread") == 2


def test_a_brief_rank_shows_its_compute_and_communication_streams_only() -> None:
    found = groups(several_ranks(2, threads=12))
    layout = lay_out(found, Arrangement())
    assert titles(layout)[:3] == ["Rank 0", "GPU 0 · stream 7", "Communication"]
    opened = lay_out(found, Arrangement(groups={"rank 0": GroupState.FULL}))
    assert "Main thread" in titles(opened)


def test_compact_mode_leaves_one_strip_a_rank() -> None:
    layout = lay_out(groups(several_ranks(3)), Arrangement(compact=True))
    assert titles(layout) == ["Rank 0", "Rank 1", "Rank 2"]
    assert all(placed.rows and placed.height <= COMPACT + 2 for placed in layout.scrolled)


def test_what_compact_lanes_free_is_the_gpus(small_run: Trace) -> None:
    found, heights = groups(small_run), []
    for room in (150, 400):
        layout = lay_out(found, Arrangement(compact=True), room=room)
        heights.append({each.track.first_of_device: each.height for each in layout.scrolled})
    assert heights[1][True] > 2 * heights[0][True]
    assert heights[1][False] == heights[0][False]


def test_filtering_keeps_lanes_that_contain_every_word(small_run: Trace) -> None:
    found = groups(small_run)
    assert titles(lay_out(found, Arrangement(), "stream")) == ["GPU 0 · stream 7"]
    assert titles(lay_out(found, Arrangement(), "main CUDA")) == ["CUDA API"]
    assert titles(lay_out(found, Arrangement(), "nothing like it")) == []


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("rank 2", {2}),
        ("rank:2", {2}),
        ("RANK: 0,2", {0, 2}),
        ("rank 1 rank 3", {1, 3}),
        ("rank:1", {1}),
        ("1 kind:gpu", {1}),
        ("rank:99", set()),
    ],
)
def test_a_rank_is_found_by_its_number_alone(text: str, ranks: set[int]) -> None:
    layout = lay_out(groups(several_ranks(12)), Arrangement(), text)
    lanes = [each.track for each in layout.scrolled if not each.track.is_heading]
    assert {track.rank for track in lanes} == ranks
    assert {each.track.title for each in layout.scrolled if each.track.is_heading} == {
        f"Rank {n}" for n in ranks
    }


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("stream:7", ["GPU 0 · stream 7"]),
        ("stream 1", []),
        ("gpu:0 kind:stream", ["GPU 0 · stream 7"]),
        ("gpu:1", []),
        ("kind:api", ["CUDA API"]),
        ("kind:cpu", ["Main thread"]),
        ("7 kind:gpu", ["GPU 0 · stream 7"]),
        ("70", []),
        ("thread kind:api", ["CUDA API"]),
    ],
)
def test_fields_are_numbers_and_kinds_and_words_are_parts_of_the_name(
    small_run: Trace, text: str, left: list[str]
) -> None:
    layout = lay_out(groups(small_run), Arrangement(), text)
    assert [each.track.title for each in layout.scrolled if not each.track.is_heading] == left


def test_a_field_whose_value_is_still_to_be_typed_hides_nothing() -> None:
    assert not LaneFilter.of("Rank:")
    assert LaneFilter.of("stream:7 kind: ") == LaneFilter.of("stream:7")


def test_filtering_opens_folded_ranks_and_drops_those_without_a_match() -> None:
    layout = lay_out(groups(several_ranks(6)), Arrangement(), "rank 3 communication")
    assert titles(layout) == ["Rank 3", "Communication"]


def test_a_pinned_lane_says_whose_it_is() -> None:
    found = groups(several_ranks(3))
    layout = lay_out(found, Arrangement(pinned=[found[2].tracks[0].key]))
    assert layout.pinned[0].track.subtitle.startswith("Rank 2")


def test_pinned_lanes_leave_their_place_and_come_first(small_run: Trace) -> None:
    found = groups(small_run)
    key = found[0].tracks[3].key
    layout = lay_out(found, Arrangement(pinned=[key]))
    assert [placed.track.key for placed in layout.pinned] == [key]
    assert layout.find(key) in layout.pinned
    assert "GPU 0 · stream 7" not in titles(layout)


def test_hidden_lanes_are_gone_and_moved_lanes_change_places(small_run: Trace) -> None:
    found = groups(small_run)
    keys = [track.key for track in found[0].tracks]
    assert "CUDA API" not in titles(lay_out(found, Arrangement(hidden={keys[2]})))
    moved = lay_out(found, Arrangement(order=[keys[3], keys[0], keys[1]]))
    assert titles(moved)[:4] == ["GPU 0 · stream 7", "Regions", "CUDA API", "Main thread"]


def nested(levels: int) -> list[Group]:
    builder = TraceBuilder()
    lane = builder.lane(Lane(LaneKind.CPU_THREAD, "Main thread", process=1, thread=1))
    start = np.arange(levels, dtype=np.int64)
    builder.add(start, 1000 - start, builder.string("op"), lane, EventKind.CPU_OP)
    return list(groups(builder.build()))


def test_a_deep_lane_shows_some_levels_and_more_when_it_is_made_higher() -> None:
    found = nested(20)
    layout = lay_out(found, Arrangement())
    placed = layout.scrolled[0]
    assert 1 < len(placed.rows) < 20
    assert placed.hidden_levels == 20 - len(placed.rows)
    higher = lay_out(found, Arrangement(heights={placed.track.key: 400})).scrolled[0]
    assert higher.height == 400
    assert len(higher.rows) == 20


@pytest.mark.parametrize("height", [14, 22, 40, 90, 250, 600])
def test_rows_lie_inside_their_lane_without_overlap(height: int) -> None:
    found = nested(12)
    placed = lay_out(found, Arrangement(heights={found[0].tracks[0].key: height})).scrolled[0]
    edges = [(row.top, row.top + row.height) for row in placed.rows]
    assert edges[0][0] >= 0
    assert edges[-1][1] <= placed.height
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(edges))


def test_the_lane_that_shows_the_gaps_has_room_for_what_many_small_ones_wait_for() -> None:
    layout = lay_out(groups(several_ranks(1)), Arrangement())
    lane = next(placed for placed in layout.scrolled if placed.track.first_of_device)
    events = lane.rows[-1]
    assert lane.height - 1 - FOOT - (events.top + events.height) >= MIN_NOTE_HEIGHT


def test_the_track_at_a_height_is_the_one_drawn_there(small_run: Trace) -> None:
    layout = lay_out(groups(small_run), Arrangement())
    for placed in layout.scrolled:
        assert layout.at(placed.top) is placed
        assert layout.at(placed.bottom - 1) is placed
    assert layout.at(layout.scrolled_height) is None
    middle = layout.scrolled[2]
    assert list(layout.visible(middle.top, middle.bottom)) == [middle]


def test_an_arrangement_survives_being_written_and_read() -> None:
    arrangement = Arrangement(
        ["a"], {"b"}, {"c": True}, {"d": 90}, ["e", "f"], {"rank 0": GroupState.STRIP}, True
    )
    assert Arrangement.from_data(json.loads(json.dumps(arrangement.to_data()))) == arrangement


def test_an_arrangement_of_another_version_is_read_as_far_as_it_goes() -> None:
    read = Arrangement.from_data(
        {"heights": {"a": "tall", "b": 40}, "groups": {"rank 0": "SIDEWAYS"}, "new": 1}
    )
    assert read == Arrangement(heights={"b": 40})


def test_an_arrangement_of_other_types_is_read_as_far_as_it_goes() -> None:
    read = Arrangement.from_data(
        {
            "pinned": 3,
            "hidden": ["a", 1],
            "heights": {"a": 10**30, "b": -1, "c": 40},
            "order": "abc",
            "collapsed": ["a"],
            "groups": {"rank 0": ["FULL"]},
            "compact": "yes",
        }
    )
    assert read == Arrangement(hidden={"a"}, heights={"c": 40})


def test_a_counter_of_a_device_stands_in_the_group_of_its_rank() -> None:
    trace = several_ranks(2)
    counter = Counter("power", "W", np.array([0], np.int64), np.array([300.0]), device=1)
    found = groups(replace(trace, counters=(counter,)))
    assert [track.title for track in found[1].tracks if track.counter >= 0] == ["Power"]
    assert not any(track.counter >= 0 for track in found[0].tracks)


def test_counters_without_any_lane_make_a_group_of_their_own() -> None:
    builder = TraceBuilder()
    builder.counters.append(Counter("utilisation", "%", np.array([0, 5], np.int64), np.array([10.0, 90.0])))
    found = groups(builder.build())
    assert [(group.title, [track.title for track in group.tracks]) for group in found] == [
        ("Counters", ["Utilisation"])
    ]
