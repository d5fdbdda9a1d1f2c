"""Memory snapshots are read as data: the figures are torch's own, and nothing in a hostile file is run."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle  # noqa: TID251 - to write what is read as data, and what must be refused
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import data_pickle, open_trace
from parsers.data_pickle import NotData, TooMuch, read_data
from parsers.memory.event_runs import EventRuns
from parsers.memory.history import History
from parsers.model import Cancelled, Progress, Trace, TraceError
from parsers.model.memory import AFTER, BEFORE, UNTIMED
from parsers.storage import traces
from rules.analysis.analysis import Analysis
from rules.memory.summary import memory_of
from rules.wording.memory import memory_lines
from tests.examples import any_text
from tests.parsers.large_snapshots import write_snapshot
from tests.parsers.snapshots import FORWARD, OWN, Snapshot

# The cases lie on either side of these.
MAX_EVENT_LENGTH = 1 << 14

MB = 1 << 20
# What torch.cuda.memory_stats said in the recorded processes.
MEASURED = {
    "sound": {"peak": 2_515_623_936, "reserved": 2_787_115_008, "after": [612_364_800] * 5},
    "growing": {
        "peak": 3_271_200_768,
        "reserved": 3_376_414_720,
        "after": [916_720_128, 1_068_547_584, 1_219_850_752, 1_370_297_856, 1_519_420_928],
    },
}


def opened(folder: Path, snapshot: Snapshot, protocol: int = 4) -> Trace:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot.content(), protocol))
    return open_trace([path])


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_peak_and_what_steps_leave_are_what_torch_measured(fixtures: Path, name: str) -> None:
    trace = open_trace([fixtures / "memory" / f"{name}.snapshot.pickle.gz"])
    memory, measured = trace.memory[0], MEASURED[name]
    time, held = memory.held(0)
    reserved = next(each for each in trace.counters if "reserved" in each.name)
    assert held.max() == pytest.approx(measured["peak"], rel=0.005)
    assert reserved.value.max() == measured["reserved"]
    ends = [mark.end for mark in memory.marks if mark.name.startswith("ProfilerStep")][:5]
    after = [held[np.searchsorted(time, end, side="right") - 1] for end in ends]
    assert after == pytest.approx(measured["after"], rel=0.01)


def test_what_ran_out_is_told_with_what_was_held_then(fixtures: Path) -> None:
    trace = open_trace([fixtures / "memory" / "oom.snapshot.pickle.gz"])
    (failure,) = trace.memory[0].failures
    time, held = trace.memory[0].held(0)
    assert failure.requested == 411_705_344
    assert failure.free == 143_995_830_272
    assert held[np.searchsorted(time, failure.time, side="right") - 1] == 3_915_276_800
    assert trace.memory[0].stack(failure.stack)[-1].function == "<module>"


def test_allocations_end_where_they_are_freed_and_others_are_held_or_older(tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.event("alloc", 0, 1024, 10, OWN)
    snapshot.event("free_requested", 0, 1024, 20)
    snapshot.event("free_completed", 0, 1024, 21)
    snapshot.event("alloc", 0, 2048, 30, FORWARD + OWN)
    snapshot.event("free_requested", 8 * MB, 512, 40)
    snapshot.segment(0, (2048, True), (MB, False))
    snapshot.segment(4 * MB, (4096, True))
    table = opened(tmp_path, snapshot).memory[0].allocations
    rows = {
        (int(start), int(end), int(size))
        for start, end, size in zip(table.start, table.end, table.size, strict=True)
    }
    assert rows == {
        (0, 10_000, 1024),
        (20_000, int(AFTER), 2048),
        (BEFORE, 30_000, 512),
        (BEFORE, int(AFTER), 4096),
    }


@pytest.mark.parametrize(("in_use", "size"), [(True, 1536), (False, 1024)])
def test_what_is_held_when_the_events_end_and_not_in_the_segments_has_its_own_size(
    tmp_path: Path, in_use: bool, size: int
) -> None:
    snapshot = Snapshot()
    snapshot.event("alloc", 0, 1000, 10, OWN)
    snapshot.segment(0, (1536, in_use), (MB, False))
    assert opened(tmp_path, snapshot).memory[0].allocations.size.tolist() == [size]


def test_a_history_without_times_is_an_order_of_events(tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.event("segment_alloc", 0, 2 * MB, 10, OWN)
    snapshot.event("alloc", 0, MB, 20, OWN)
    snapshot.event("free_requested", 0, MB, 30)
    snapshot.event("segment_free", 0, 2 * MB, 40)
    for event in snapshot.events:
        del event["time_us"]
    del snapshot.events[-1]["frames"]  # as torch 2.0 states what it gives back
    snapshot.segment(4 * MB, (MB, True))
    trace = opened(tmp_path, snapshot)
    assert any(note.kind == UNTIMED for note in trace.quality.notes)
    assert trace.epoch_ns is None
    reserved = next(each for each in trace.counters if "reserved" in each.name)
    assert reserved.value.tolist() == [MB, 3 * MB, MB]
    analysis = Analysis(trace)
    (summary,) = memory_of(analysis)
    assert memory_lines(summary, analysis)[0] == (
        "Memory of GPU 0: at most 2.10 MB allocated of 3.15 MB reserved"
    )
    assert analysis.window_text == "events in their order, without times"


@pytest.mark.parametrize(("action", "placed"), [("free_completed", False), ("alloc", True)])
def test_a_history_that_says_of_no_allocation_when_it_was_made_has_no_length(
    tmp_path: Path, action: str, placed: bool
) -> None:
    snapshot = Snapshot()
    snapshot.event(action, 64 * MB, MB, 1_700_000_000_000_000, OWN)
    snapshot.segment(0, (MB, True))
    trace = opened(tmp_path, snapshot)
    assert trace.duration < 1_000
    assert (trace.epoch_ns is not None) is placed


def test_counters_bear_the_number_of_their_gpu(tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.event("alloc", 0, 1024, 10, OWN)
    snapshot.segment(0, (1024, True))
    content = snapshot.content()
    content["segments"][0]["device"], content["device_traces"] = 1, [[], *content["device_traces"]]
    (tmp_path / "snapshot.json").write_text(json.dumps(content))
    names = {each.name for each in open_trace([tmp_path / "snapshot.json"]).counters}
    assert names == {"GPU 1 allocated memory", "GPU 1 reserved memory"}


def test_a_snapshot_as_json_is_the_same(tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.event("alloc", 0, 1000, 10, OWN)
    snapshot.segment(0, (1024, True))
    (tmp_path / "snapshot.json").write_text(json.dumps(snapshot.content()))
    of_json, of_pickle = open_trace([tmp_path / "snapshot.json"]), opened(tmp_path, snapshot)
    for name, column in of_pickle.memory[0].columns().items():
        np.testing.assert_array_equal(of_json.memory[0].columns()[name], column, err_msg=name)


def test_a_snapshot_beside_a_trace_is_placed_on_its_clock(fixtures: Path, shared_data: Path) -> None:
    snapshot = fixtures / "memory" / "sound.snapshot.pickle.gz"
    alone = open_trace([shared_data / "real" / "memory_sound.pt.trace.json.gz"])
    both = open_trace([shared_data / "real" / "memory_sound.pt.trace.json.gz", snapshot])
    assert len(both.events) == len(alone.events)
    assert both.devices == alone.devices
    of_trace, of_snapshot = sorted(both.memory, key=lambda each: len(each.frames))
    (step,) = [mark for mark in of_snapshot.marks if mark.name == "ProfilerStep#4"]
    start = both.events.start[both.events.name == both.strings.index("ProfilerStep#4")].min()
    assert abs(step.start - start) < 1_000_000  # 1 ms
    assert min(mark.start for mark in of_snapshot.marks) < 0  # the snapshot began before the trace
    when = int(step.start)
    by_each = [
        held[np.searchsorted(time, when) - 1] for time, held in (of_trace.held(0), of_snapshot.held(0))
    ]
    assert by_each[0] == pytest.approx(by_each[1], rel=0.01)
    assert [each.name for each in both.counters] == [each.name for each in alone.counters]


def test_allocations_of_a_trace_add_up_to_the_totals_that_it_states(shared_data: Path) -> None:
    trace = open_trace([shared_data / "real" / "memory_growing.pt.trace.json.gz"])
    (memory,) = trace.memory
    counter = next(each for each in trace.counters if each.name == "GPU 0 allocated memory")
    time, held = memory.held(0)
    np.testing.assert_array_equal(held[np.searchsorted(time, counter.time, side="right") - 1], counter.value)
    threads = {lane.thread for lane in trace.lanes}
    assert set(memory.allocations.thread.tolist()) - {-1} <= threads


def test_what_was_stored_is_read_back_whole(fixtures: Path, tmp_path: Path) -> None:
    trace = open_trace([fixtures / "memory" / "oom.snapshot.pickle.gz"])
    traces.write(tmp_path / "stored", trace)
    again = traces.read(tmp_path / "stored", trace.sources)
    assert again.memory[0].words() == trace.memory[0].words()
    for name, column in trace.memory[0].columns().items():
        np.testing.assert_array_equal(again.memory[0].columns()[name], column, err_msg=name)


def test_events_that_are_read_together_are_what_they_are_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_snapshot(tmp_path / "large.pickle", 1500)
    together = open_trace([tmp_path / "large.pickle"]).memory[0]
    runs = [0]
    monkeypatch.setattr(EventRuns, "run", lambda self, at: runs.append(at))
    one_by_one = open_trace([tmp_path / "large.pickle"]).memory[0]
    assert len(runs) > 4000
    assert len(together.allocations.start) == 1500
    assert together.words() == one_by_one.words()
    for name, column in one_by_one.columns().items():
        np.testing.assert_array_equal(together.columns()[name], column, err_msg=name)


def stack_of_shared_frames(number: int) -> list[dict[str, Any]]:
    return [FRAMES[(number * step) % len(FRAMES)] for step in (1, 3, 3, 5)]


def stack_of_its_own_frames(number: int) -> list[dict[str, Any]]:
    return [dict(each) for each in stack_of_shared_frames(number)]


def stack_of_its_own_texts(number: int) -> list[dict[str, Any]]:
    return [
        {"name": f"{each['name']}!", "filename": f"{each['filename']}x" * 3, "line": each["line"]}
        for each in stack_of_shared_frames(number)
    ]


def stack_of_named_files(number: int) -> list[dict[str, Any]]:
    """One text is the name as well as the file, and is told before the second frame says it again."""
    text = f"part {number % 7}"
    return [{"name": text, "filename": text, "line": 1}, {"name": "main", "filename": text, "line": number}]


FRAMES = [{"name": f"f{n}", "filename": f"/src/{n % 3}.py", "line": n * 4000} for n in range(40)]


@pytest.mark.parametrize(
    "stack",
    [stack_of_shared_frames, stack_of_its_own_frames, stack_of_its_own_texts, stack_of_named_files],
    ids=lambda each: each.__name__,
)
def test_stacks_that_every_event_spells_out_are_read_together(
    monkeypatch: pytest.MonkeyPatch, stack: Callable[[int], list[dict[str, Any]]]
) -> None:
    snapshot = Snapshot()
    for number in range(600):
        snapshot.event("alloc", 4096 + 512 * (number % 50), 512, 10 * number, (*stack(number),))
        snapshot.event("free_completed", 4096 + 512 * (number % 50), 512, 10 * number + 5, (*stack(number),))
    content = pickle.dumps(snapshot.content() | {"user_metadata": " " * MAX_EVENT_LENGTH}, 4)
    together, one_by_one = History(), History()
    alone = []
    take = History.taken
    with monkeypatch.context() as watched:
        watched.setattr(History, "taken", lambda history, whole: alone.append(1) or take(history, whole))
        rest = read_data(content, rows=EventRuns(together))
    monkeypatch.setattr(EventRuns, "run", lambda self, at: None)
    assert read_data(content, rows=EventRuns(one_by_one)) == rest
    assert len(alone) < 300
    assert together.frames()[0] == one_by_one.frames()[0]
    for one, other in zip(together.frames()[1:], one_by_one.frames()[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    for name in ("action", "address", "size", "time", "free", "stack"):
        assert getattr(together, name) == getattr(one_by_one, name), name


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | any_text(40)
    | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(any_text(40) | st.integers(), inner) | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@given(PLAIN, st.integers(3, 5))  # older ones call a function to make bytes
def test_data_of_any_shape_is_read_as_pickle_would(value: Any, protocol: int) -> None:
    try:
        expected = pickle.loads(pickle.dumps(value, protocol))
    except UnicodeEncodeError:
        return
    assert read_data(pickle.dumps(value, protocol)) == expected


class Call:
    """Asks for a call when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("GLOBAL", b"cbuiltins\nprint\n."),
        ("STACK_GLOBAL", b"\x8c\x08builtins\x8c\x05print\x93."),
        ("INST", b"(ibuiltins\nprint\n."),
        ("OBJ", b"(K\x01o."),
        ("NEWOBJ", b"K\x01)\x81."),
        ("NEWOBJ_EX", b"K\x01)}\x92."),
        ("REDUCE", b"K\x01)R."),
        ("BUILD", b"}}b."),
        ("EXT1", b"\x82\x01."),
        ("EXT2", b"\x83\x01\x00."),
        ("EXT4", b"\x84\x01\x00\x00\x00."),
        ("PERSID", b"Pid\n."),
        ("BINPERSID", b"K\x01Q."),
        ("NEXT_BUFFER", b"\x97."),
    ],
)
def test_every_instruction_that_is_no_data_is_refused_by_its_name(name: str, code: bytes) -> None:
    with pytest.raises(NotData, match=name):
        read_data(b"\x80\x04" + code)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04}(",
        b"\x80\x04.",
        b"\x80\x04K\x01u.",
        b"\x80\x04](K\x01u.",
        b"\x80\x04](K\x01",
        b"\x80\x04h\x07.",
        b"\x80\x04K\x01\x87.",
        b"\x80\x04}(]K\x01u.",
        b"\x80\x04}K\x01r\xff\xff\xff\x7f.",
        b"\x80\x04\x8a\xff" + bytes(255) + b".",
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x.",
        b"\x80\x09K\x01.",
        b"\x80\x04K\x01K\x02.",
        b"\x80\x04" + b"(" * 1000 + b".",
    ],
)
def test_damaged_pickles_end_with_a_sentence(data: bytes) -> None:
    with pytest.raises(NotData):
        read_data(data)


def test_references_in_a_row_fetch_what_each_of_them_fetches() -> None:
    texts = [str(number) for number in range(400)]
    value = [texts, texts[::-1], [*texts[300:], *texts[:10], *texts[290:]], texts[:3], texts[256:259]]
    assert read_data(pickle.dumps(value, 4)) == value


@pytest.mark.parametrize("code", [b"h\xff", b"j\xff\xff\xff\xff"])
def test_references_in_a_row_to_what_was_never_remembered_are_refused(code: bytes) -> None:
    with pytest.raises(NotData):
        read_data(b"\x80\x04]\x94(" + code * 9 + b"e.")


def test_a_key_nested_very_deep_is_not_hashed() -> None:
    nested = b"\x80\x04})" + b"\x85" * 100_000 + b"K\x01s."
    with pytest.raises(NotData):
        read_data(nested)


@pytest.mark.parametrize("code", [b"]", b"}", b")", b"("])
def test_more_tables_than_any_snapshot_has_are_refused(monkeypatch: pytest.MonkeyPatch, code: bytes) -> None:
    monkeypatch.setattr(data_pickle, "MAX_CONTAINERS", 1000)
    with pytest.raises(TooMuch):
        read_data(b"\x80\x04(" + code * 2000 + b"l.")


def test_more_remembered_values_than_any_snapshot_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_pickle, "MAX_VALUES", 1000)
    with pytest.raises(TooMuch):
        read_data(b"\x80\x04K\x01" + b"\x94" * 2000 + b".")


def test_reading_stops_when_it_is_cancelled() -> None:
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        read_data(pickle.dumps(list(range(1 << 19))), progress)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_a_cut_snapshot_ends_with_one_sentence(fixtures: Path, tmp_path: Path, part: float) -> None:
    whole = gzip.decompress((fixtures / "memory" / "sound.snapshot.pickle.gz").read_bytes())
    (tmp_path / "cut.pickle").write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(TraceError, match="ends in the middle"):
        open_trace([tmp_path / "cut.pickle"])


@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        {"segments": 5},
        {"segments": [], "device_traces": []},
        {"segments": [5, {"blocks": [7]}], "device_traces": [[8], "x", {}]},
        {
            "segments": [{"device": "x", "blocks": [{"size": "y"}]}],
            "device_traces": [[{"action": [], "frames": 5}]],
        },
        {
            "segments": [{"device": 1 << 70, "address": 1 << 90, "blocks": [{"size": -5}]}],
            "device_traces": [],
        },
    ],
)
def test_data_of_other_shapes_is_refused_or_opens_without_them(tmp_path: Path, content: Any) -> None:
    buffer = io.BytesIO()
    pickle.dump(content, buffer, 4)
    (tmp_path / "odd.pickle").write_bytes(buffer.getvalue())
    with contextlib.suppress(TraceError):
        assert len(open_trace([tmp_path / "odd.pickle"]).memory) == 1


def test_a_frame_is_not_named_by_lists_that_hold_one_another(tmp_path: Path) -> None:
    """Each is named ten times by the next: written out, six of them would be a text of megabytes."""
    held: list[Any] = []
    for _ in range(6):
        held = [held] * 10
    snapshot = Snapshot()
    snapshot.event("alloc", 4096, 512, 10, ({"name": held, "filename": held, "line": 1},))
    snapshot.event("alloc", 8192, 512, 20, (held,))
    snapshot.segment(4096, (512, True))
    (path := tmp_path / "shared.pickle").write_bytes(pickle.dumps(snapshot.content(), 4))
    (memory,) = open_trace([path]).memory
    assert {(frame.function, frame.file) for frame in memory.frames} == {("", "")}


def test_events_that_stand_alone_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between every two lies something else, so that there is nothing to be read together."""
    snapshot = Snapshot()
    stack = list(FORWARD)
    for number in range(300):
        snapshot.event("alloc", 4096 + 512 * number, 512, number)
        snapshot.events[-1]["frames"] = stack
    rows: list[Any] = [each for event in snapshot.events for each in (event, {"other": 1})]
    data = pickle.dumps({**snapshot.content(), "device_traces": [rows], "more": " " * (1 << 15)}, 4)
    asked = []
    extend = History.extend
    monkeypatch.setattr(History, "extend", lambda *columns: asked.append(1) or extend(*columns))
    history = History()
    read_data(data, rows=EventRuns(history))
    assert len(history.action) == 300
    assert not asked
