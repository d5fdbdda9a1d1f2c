"""What a page holds of a recording: every event as it was, in as few bytes as were allowed."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resources
from parsers import open_trace
from parsers.model import LaneKind, Trace, units
from rules.analysis.analysis import Analysis
from viewer.appearance import theme
from viewer.appearance.lane_colors import PageColors
from viewer.reports.interactive.packing import EventRow, columns_of, entries_of, few_points
from viewer.reports.interactive.recording import MAX_NAME_LENGTH, packed_recording
from viewer.reports.pictures.timeline_picture import shown_stretch
from viewer.timeline.geometry.drawing_index import drawing_index
from viewer.timeline.kinds.base import StyledRow, style_of
from viewer.timeline.memory.colors import color_of
from viewer.timeline.memory.stack import stacks_of

Columns = dict[str, Any]


def unpacked(packed: bytes) -> tuple[dict[str, Any], bytes]:
    raw = zlib.decompress(packed)
    length = int.from_bytes(raw[:4], "little")
    return json.loads(raw[4 : 4 + length]), raw[4 + length :]


def column(data: bytes, count: int) -> tuple[np.ndarray, bytes]:
    width = data[0]
    table = np.frombuffer(data[1 : 1 + width * count], np.uint8).reshape(width, count).astype(np.int64)
    return sum((plane << 8 * at for at, plane in enumerate(table)), np.zeros(count, np.int64)), data[
        1 + width * count :
    ]


def shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"


def events_of(header: dict[str, Any], data: bytes) -> Columns:
    """Start, end, name and launching entry, as the script of a page works them out."""
    total = sum(header["rows"])
    pause, data = column(data, total)
    taken, data = column(data, total)
    name, data = column(data, total)
    step, data = column(data, total)
    start, end, launch = np.zeros(total, np.int64), np.zeros(total, np.int64), np.full(total, -1)
    at = launched = 0
    for size in header["rows"]:
        clock = 0
        for at in range(at, at + size):  # noqa: B020
            clock += int(pause[at])
            start[at] = clock * header["unit"]
            clock += int(taken[at])
            end[at] = clock * header["unit"]
            if step[at]:
                folded = int(step[at]) - 1
                launched += -(folded + 1) // 2 if folded % 2 else folded // 2
                launch[at] = launched
        at += 1 if size else 0
    return {"start": start, "end": end, "name": name, "launch": launch}


@pytest.fixture(scope="session")
def sample() -> Trace:
    return open_trace([resources.path("samples/dataloader_starved.pt.trace.json.gz")])


def test_a_page_has_every_event_of_every_lane_with_its_launch(sample: Trace) -> None:
    analysis = Analysis(sample)
    header, data = unpacked(packed_recording(analysis, shown_stretch(analysis)[:2]))
    assert (header["unit"], header["resolution"]) == (1, 0)
    found = events_of(header, data)
    edges = np.concatenate(([0], np.cumsum(header["rows"])))
    lanes = {
        lane: track
        for group in header["groups"]
        for track in group["tracks"]
        for lane in track.get("lanes", ())
    }
    for lane, each in enumerate(sample.lanes):
        if each.kind is not LaneKind.GPU_STREAM:
            continue
        for (row, _), part in zip(lanes[lane]["levels"], sample.events.rows(lane).values(), strict=True):
            mine = slice(edges[row], edges[row + 1])
            assert np.array_equal(found["start"][mine], sample.events.start[part])
            assert np.array_equal(found["end"][mine], sample.events.end[part])
            names = [header["names"]["text"][name] for name in found["name"][mine]]
            assert names == [shortened(sample.strings[name]) for name in sample.events.name[part]]
            launch = sample.links.launch_of(np.arange(part.start, part.stop))
            entry = found["launch"][mine]
            known = launch >= 0
            assert known.any()
            assert np.array_equal(entry >= 0, known)
            assert np.array_equal(found["start"][entry[known]], sample.events.start[launch[known]])


def test_where_all_events_are_too_many_times_get_coarser_and_neighbours_are_joined(sample: Trace) -> None:
    analysis = Analysis(sample)
    view = shown_stretch(analysis)[:2]
    whole = len(packed_recording(analysis, view))
    for most in (whole * 9 // 10, whole // 2):
        packed = packed_recording(analysis, view, most)
        assert len(packed) <= most
        header, _ = unpacked(packed)
        assert header["unit"] > 1
        assert header["events"] == len(sample.events)
    assert header["resolution"] > 0


rows = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3)), max_size=60)


@given(rows=st.lists(rows, min_size=1, max_size=4), resolution=st.sampled_from([0, 50, 500, 5000]))
def test_joining_loses_no_event_and_no_time(rows: list[list[tuple[int, int, int]]], resolution: int) -> None:
    made, number = [], 0
    for row in rows:
        pause, taken, name = (np.array([each[place] for each in row], np.int64) for place in range(3))
        end = np.cumsum(pause + taken)
        made.append(EventRow(end - taken, end, name, np.arange(number, number + len(row))))
        number += len(row)
    entries = entries_of(made, resolution)
    assert int(entries.count.sum()) == number
    for row, first, last in zip(made, entries.first[:-1], entries.first[1:], strict=True):
        part = slice(first, last)
        spent = (entries.end - entries.start)[part] * entries.busy[part]
        assert spent.sum() == pytest.approx((row.end - row.start).sum())
        assert np.all(entries.start[part][1:] >= entries.end[part][:-1])
        if len(row.start):
            assert (entries.start[part][0], entries.end[part][-1]) == (row.start[0], row.end[-1])
    single = entries.count == 1
    assert np.all(entries.event[single] >= 0)
    assert np.all(entries.event[~single] == -1)
    header = {"rows": np.diff(entries.first).tolist(), "unit": 1}
    found = events_of(header, columns_of(entries, 1, np.full(len(entries), -1)))
    assert np.array_equal(found["start"], entries.start)
    assert np.array_equal(found["end"], entries.end)
    assert np.array_equal(found["name"], entries.name)


def test_a_long_series_keeps_its_extremes() -> None:
    time = np.arange(100_000, dtype=np.int64)
    value = np.sin(time / 900.0)
    value[12_345], value[54_321] = 7.0, -7.0
    when, kept = few_points(time, value, 500)
    assert len(when) <= 500
    assert np.all(np.diff(when) > 0)
    assert (kept.max(), kept.min()) == (7.0, -7.0)
    assert few_points(time[:10], value[:10], 500)[0] is not None


def test_lanes_of_a_page_have_the_colours_of_the_window(sample: Trace) -> None:
    index = drawing_index(sample)
    for lane, each in enumerate(sample.lanes):
        style = style_of(each.kind)
        keys = {style.key(sample.strings[name]) for name in index.names.get(each.kind, np.empty(0, np.int64))}
        for key in keys:
            for depth in range(3):
                row = StyledRow(each, index.numbers.get(lane, 0), depth)
                for colors, look in ((PageColors(True), theme.DARK), (PageColors(False), theme.LIGHT)):
                    wanted, drawn = style.color(key, row, look), style.color(key, row, colors)
                    channels = [int(drawn[at : at + 2], 16) for at in (1, 3, 5)]
                    for one, other in zip(
                        channels, (wanted.red(), wanted.green(), wanted.blue()), strict=True
                    ):
                        assert abs(one - other) <= 2, (key, depth, wanted.name(), drawn)


def test_a_lane_of_memory_shows_what_the_window_shows(fixtures: Path) -> None:
    trace = open_trace([fixtures / "memory" / "growing.snapshot.pickle.gz"])
    analysis = Analysis(trace)
    header, data = unpacked(packed_recording(analysis, (0, trace.duration)))
    assert header["rows"] == []
    for _ in range(4):  # of events, of which there are none
        _, data = column(data, 0)
    ((_, stack),) = stacks_of(analysis).items()
    tracks = [track for group in header["groups"] for track in group["tracks"]]
    told = {track["title"]: track["subtitle"] for track in tracks}
    assert told == {
        "Memory": f"peak {units.size(stack.peak)}  GPU 0",
        "Reserved memory": f"max {units.size(float(trace.counters[1].value.max()))}  GPU 0",
    }
    (track,) = (each for each in tracks if "bands" in each)
    assert tracks.index(track) == 0
    _, data = column(column(data, track["counter"])[1], track["counter"])
    below = []
    for band in track["bands"]:
        pauses, data = column(data, band["counter"])
        level, data = column(data, band["counter"])
        below.append(level / 65535 * track["high"])
    assert [band["title"] for band in track["bands"]] == [kind.value for kind in reversed(stack.kinds)]
    light, dark = (color_of(stack.kinds[-1], PageColors(is_dark)) for is_dark in (False, True))
    assert track["bands"][0]["color"] == [light, dark]
    assert below[0].max() == pytest.approx(stack.peak, rel=1e-4)
    held = np.array(below) - np.array([*below[1:], np.zeros(len(pauses))])
    times = np.cumsum(pauses)
    for at in range(0, len(times), 97):
        assert held[:, at] == pytest.approx(
            [*reversed(stack.at(int(times[at])).values())], abs=track["high"] * 1e-4
        )
