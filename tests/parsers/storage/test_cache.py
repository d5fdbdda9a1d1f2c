"""Reopening a recording from the cache gives the same trace, and nothing odd in the cache can hurt."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

import resources
from parsers import open_trace
from parsers.files.private_folder import hold
from parsers.formats.chrome_trace import ChromeTrace
from parsers.model import Attribute, Counter, Device, EventKind, Lane, LaneKind, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.storage import cache, columns, entries, traces
from tests.limits import room_in_a_file
from tests.parsers.traces import assert_same
from viewer.cli import main


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(cache, "MIN_EVENTS", 1)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "recording.json"
    path.write_text("{}")
    return path


class NoArguments:
    def arguments(self, source_row: int) -> dict[str, object]:
        return {"row": source_row}


def _must_not_read(*_: object) -> None:
    raise AssertionError("the recording was read again")


def _load(path: Path) -> Trace | None:
    return cache.load(path, ChromeTrace(), NoArguments)


def _trace(path: Path) -> Trace:
    builder = TraceBuilder(epoch_ns=1_700_000_000_000_000_000)
    builder.inputs.append(TraceInput(str(path), "chrome", "test", file=str(path), state=cache.state_of(path)))
    device = builder.device(Device(0, "GPU"))
    api = builder.lane(Lane(LaneKind.CUDA_API, "CUDA API", process=1, thread=1))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", device=device, stream=7))
    starts = np.arange(5, dtype=np.int64) * 100
    launches = builder.add(starts, starts + 10, builder.string("cudaLaunchKernel"), api, EventKind.API)
    kernels = builder.add(starts + 20, starts + 80, builder.string("gemm"), stream, EventKind.KERNEL)
    builder.link(kernels, launches)
    builder.attribute(Attribute.GRID, kernels, np.arange(5))
    builder.counters.append(Counter("memory", "B", starts, starts.astype(float)))
    return builder.build()


def _assert_equal(a: Trace, b: Trace) -> None:
    for name in ("start", "end", "name", "lane", "depth", "kind", "source_row"):
        np.testing.assert_array_equal(getattr(a.events, name), getattr(b.events, name))
    np.testing.assert_array_equal(a.links.operation, b.links.operation)
    np.testing.assert_array_equal(a.links.launch, b.links.launch)
    assert a.attributes.keys() == b.attributes.keys()
    for which in a.attributes:
        np.testing.assert_array_equal(a.attributes[which].value, b.attributes[which].value)
    np.testing.assert_array_equal(a.counters[0].value, b.counters[0].value)
    for name in ("strings", "lanes", "devices", "inputs", "quality", "capture", "epoch_ns"):
        assert getattr(a, name) == getattr(b, name)


def test_a_stored_trace_comes_back_equal(recording: Path) -> None:
    trace = _trace(recording)
    cache.store(trace)
    again = _load(recording)
    assert again is not None
    _assert_equal(trace, again)


def test_a_trace_larger_than_the_whole_cache_is_not_kept(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 100)
    assert cache.store(_trace(recording)) is None
    assert not cache.holds(recording, ChromeTrace())


def test_a_replaced_file_is_not_answered_from_the_cache(recording: Path) -> None:
    cache.store(_trace(recording))
    recording.write_text("{ }")
    assert _load(recording) is None


def test_a_touched_file_of_the_same_size_is_not_answered_from_the_cache(recording: Path) -> None:
    cache.store(_trace(recording))
    os.utime(recording, ns=(1, 1))
    assert _load(recording) is None


def test_what_another_version_of_the_parser_made_is_not_an_answer(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.store(_trace(recording))
    monkeypatch.setattr(ChromeTrace, "version", ChromeTrace.version + 1)
    assert _load(recording) is None


@pytest.mark.parametrize("what", ["FORMAT", "_NUMBERED"])
def test_what_was_stored_with_another_meaning_is_not_an_answer(
    recording: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    cache.store(_trace(recording))
    changed = {"FORMAT": traces.FORMAT + 1, "_NUMBERED": (*traces._NUMBERED, Enum("New", "ONE"))}
    monkeypatch.setattr(traces, what, changed[what])
    traces.meaning.cache_clear()
    try:
        assert _load(recording) is None
    finally:
        traces.meaning.cache_clear()


def test_a_damaged_entry_is_read_again_from_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    shutil.copy(resources.path("samples/elementwise_chain.pt.trace.json.gz"), path)
    first = open_trace([path])
    (entry,) = cache.folder().iterdir()
    entry.write_bytes(entry.read_bytes()[:-100])
    assert_same(first, open_trace([path]))


def test_only_their_owner_may_look_at_entries(recording: Path) -> None:
    cache.folder().mkdir(parents=True)
    cache.folder().chmod(0o755)
    before = os.umask(0)
    try:
        entry = cache.store(_trace(recording))
    finally:
        os.umask(before)
    assert entry is not None
    assert (cache.folder().stat().st_mode & 0o777, entry.stat().st_mode & 0o777) == (0o700, 0o600)


def test_entries_of_an_earlier_layout_are_cleared_away(recording: Path) -> None:
    old = cache.folder() / "0123456789abcdef"
    old.mkdir(parents=True)
    (old / "event.start.npy").write_bytes(b"")
    entry = cache.store(_trace(recording))
    assert list(cache.folder().iterdir()) == [entry]


def test_what_a_killed_writer_left_is_not_an_entry_and_goes_away(recording: Path) -> None:
    cache.store(_trace(recording))
    (entry,) = cache.folder().iterdir()
    left = entry.rename(entry.with_name(f".{entry.name}.1.part"))
    assert _load(recording) is None
    entries.trim(cache.folder(), cache.MAX_BYTES)
    assert not left.exists()


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="the system has no files without a name")
def test_what_is_not_complete_has_no_name(tmp_path: Path) -> None:
    entry = tmp_path / "entries" / "one"

    def interrupted() -> None:
        with entries.written_whole(entry) as file:
            file.write(b"half")
            assert list(entry.parent.iterdir()) == []
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(entry.parent.iterdir()) == []


@pytest.mark.parametrize("can", [True, False], ids=["without a name", "under another name"])
def test_an_entry_takes_the_place_of_an_older_one_and_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can: bool
) -> None:
    if not can:
        monkeypatch.setattr(entries, "_without_a_name", lambda folder: None)
    entry = tmp_path / "entries" / "one"
    for content in (b"first", b"second"):
        with entries.written_whole(entry) as file:
            file.write(content)
        assert entry.read_bytes() == content
        assert entry.stat().st_mode & 0o777 == 0o600
        assert list(entry.parent.iterdir()) == [entry]


def test_what_another_process_writes_at_this_moment_stays(tmp_path: Path) -> None:
    part = tmp_path / ".entry.1.part"
    held = hold(part)
    entries.trim(tmp_path, cache.MAX_BYTES)
    assert part.exists()
    os.close(held)
    entries.trim(tmp_path, cache.MAX_BYTES)
    assert not part.exists()


def test_the_entries_used_longest_ago_make_room(recording: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("[]")
    for age, path in ((1000, recording), (2000, other)):
        cache.store(_trace(path))
        newest = max(cache.folder().iterdir(), key=lambda entry: entry.stat().st_mtime)
        os.utime(newest, (age, age))
    size = newest.stat().st_size
    entries.trim(cache.folder(), size)
    assert _load(recording) is None
    assert _load(other) is not None


def test_entries_used_while_the_clock_was_wrong_make_room_first(recording: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("[]")
    stored = [cache.store(_trace(path)) for path in (recording, other)]
    assert stored[0] is not None
    os.utime(stored[0], (4e9, 4e9))
    entries.trim(cache.folder(), stored[0].stat().st_size)
    assert _load(recording) is None
    assert _load(other) is not None


def test_a_full_disk_leaves_no_entry_and_no_error(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(columns, "_append", full)
    cache.store(_trace(recording))
    assert list(cache.folder().iterdir()) == []


@pytest.mark.parametrize("room", [0, 1, 64, 100, 300, 1000])
def test_a_disk_that_is_full_at_any_byte_leaves_no_entry_and_no_error(recording: Path, room: int) -> None:
    trace = _trace(recording)
    with room_in_a_file(room):
        assert cache.store(trace) is None
    assert list(cache.folder().iterdir()) == []
    assert cache.store(trace) is not None


def test_several_programs_that_keep_the_same_recording_leave_one_entry(recording: Path) -> None:
    trace = _trace(recording)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: cache.store(trace), range(32)))
    assert len(list(cache.folder().iterdir())) == 1
    again = _load(recording)
    assert again is not None
    _assert_equal(trace, again)


def test_a_recording_reopened_from_the_cache_is_the_one_that_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json.gz"
    shutil.copy(resources.path("samples/elementwise_chain.pt.trace.json.gz"), path)
    first = open_trace([path])
    monkeypatch.setattr(ChromeTrace, "read", _must_not_read)
    again = open_trace([path])
    assert_same(first, again)
    kernel = int(again.gpu_operations[0])
    assert again.arguments(kernel) == first.arguments(kernel) != {}


def test_ranks_that_were_read_once_are_each_reopened(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_trace([fixtures / "ddp"])
    monkeypatch.setattr(ChromeTrace, "read", _must_not_read)
    assert_same(first, open_trace([fixtures / "ddp"]))


def test_what_was_read_is_never_kept_as_the_file_that_replaced_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    shutil.copy(resources.path("samples/elementwise_chain.pt.trace.json.gz"), path)
    old = open_trace([path])
    shutil.copy(resources.path("samples/cpu_python.pt.trace.json.gz"), path)
    cache.store(old)
    assert len(open_trace([path]).events) != len(old.events)


def test_the_command_line_answers_from_what_it_read_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json.gz"
    shutil.copy(resources.path("samples/elementwise_chain.pt.trace.json.gz"), path)
    assert main(["diagnose", "--json", str(path)]) == 0
    first = capsys.readouterr().out
    monkeypatch.setattr(ChromeTrace, "read", _must_not_read)
    assert main(["diagnose", "--json", str(path)]) == 0
    assert capsys.readouterr().out == first


def test_what_came_over_the_standard_input_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = resources.path("samples/elementwise_chain.pt.trace.json.gz")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(recording.read_bytes())))
    assert main(["diagnose", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"]
    assert not cache.folder().exists()


def test_a_name_that_no_file_of_columns_can_hold_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"run \xff.json.gz")
    shutil.copy(resources.path("samples/elementwise_chain.pt.trace.json.gz"), path)
    assert len(open_trace([path]).events)


def test_a_file_is_called_what_it_was_opened_as(fixtures: Path) -> None:
    one = open_trace([fixtures / "ddp" / "no_overlap.rank0.pt.trace.json.gz"])
    run = open_trace([fixtures / "ddp"])
    assert one.inputs[0].path == one.inputs[0].file
    assert run.inputs[0].path == "no_overlap.rank0.pt.trace.json.gz"
    assert run.inputs[0].file == one.inputs[0].file


def test_the_files_of_a_folder_are_not_taken_for_changed(fixtures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(fixtures / "ddp", folder)
    trace = open_trace([folder])
    assert cache.changed_files(trace) == []
    os.utime(folder / "no_overlap.rank1.pt.trace.json.gz", ns=(1, 1))
    assert cache.changed_files(trace) == ["no_overlap.rank1.pt.trace.json.gz"]


def test_a_cache_that_cannot_be_used_is_no_news_for_the_terminal(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    path = resources.path("samples/elementwise_chain.pt.trace.json.gz")
    program = (
        "from parsers.storage import cache; from viewer.cli import main; cache.MIN_EVENTS = 1; "
        f"raise SystemExit(main(['diagnose', {str(path)!r}]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(repository), "XDG_CACHE_HOME": str(tmp_path / "a file")}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
