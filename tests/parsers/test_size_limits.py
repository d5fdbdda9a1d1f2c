"""What is larger than a format ever is, or than memory, is refused in a sentence; the numbers are stated here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.chrome.decode import reading
from parsers.files import containers, unpacking_limit
from parsers.files.base import Source
from parsers.files.unpacking_limit import LimitedStream, UnpackingLimit
from parsers.model import Progress, TraceError
from parsers.sqlite import private_copy

MB, GB, DAY_S = 1 << 20, 1 << 30, 86_400
NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("file", "most_mb"),
    [
        ("stacks/loop.perf_report.txt", 64),
        ("stacks/feed.prof", 64),
        ("stacks/feed.pyinstrument.txt", 64),
        ("results/trtexec_profile.json", 64),
        ("results/genai_perf.json", 64),
        ("results/requests.jsonl", 64),
        ("results/nccl_tests.txt", 64),
        ("stacks/feed.collapsed.txt", 128),
        ("stacks/feed.flame.svg", 128),
        ("proton/scopes.hatchet", 128),
        ("stacks/feed.speedscope.json", 256),
        ("server/trace.json", 512),
        ("operators/chakra.0.et", 1024),
    ],
)
def test_a_file_that_is_read_at_once_has_a_largest_size(
    file: str, most_mb: int, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = fixtures / file, LimitedStream.whole
    (usual,) = whole.__defaults__ or ()
    size = 0

    def claimed(stream: LimitedStream, hint: str, most: int = usual) -> bytes:
        if size > most:
            raise TraceError(path, f"It is larger than {most >> 20:,} MB, too large to read at once.", hint)
        return whole(stream, hint, most)

    monkeypatch.setattr(LimitedStream, "whole", claimed)
    size = most_mb * MB
    assert open_trace([path]).inputs
    size += 1
    with pytest.raises(TraceError, match=f"larger than {most_mb:,} MB"):
        open_trace([path])


@pytest.mark.parametrize(("size", "is_refused"), [(3 * MB, False), (3 * MB + 1, True)])
def test_a_stream_gives_no_more_than_it_is_asked_for(size: int, is_refused: bool, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        stream = LimitedStream(file, Source(path, b""), Progress(), "reading")
        if is_refused:
            with pytest.raises(TraceError, match="larger than 3 MB"):
                stream.whole("Record less.", 3 * MB)
        else:
            assert len(stream.whole("Record less.", 3 * MB)) == size


@pytest.mark.parametrize(
    ("file", "needed"),
    [
        ("rocm/rocprof_results.db.gz", 5 * 300),
        ("rocm/rocprofv3.db.gz", 6 * 300),
        ("rocm/rocprofv3.json", 10 * 350),
        ("rocm/kernel_trace.csv", 2 * 600),
        ("perfetto/gpu.pftrace", 4_653 * 20),
        ("proton/scopes.hatchet", 49 * 2_000),
        ("xprof/loader.xplane.pb.gz", 182_213 * 12),
        ("stacks/feed.speedscope.json", 293 * 200),
        ("stacks/feed.chrome.json", 656 * 250),
        ("stacks/feed.firefox.json", 234 * 40),
    ],
)
def test_what_needs_more_memory_than_nine_tenths_of_what_is_free_is_refused(
    file: str, needed: int, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, free = fixtures / file, needed * 10 // 9
    monkeypatch.setattr(unpacking_limit, "available_bytes", lambda: free + 1)
    assert open_trace([path]).inputs
    monkeypatch.setattr(unpacking_limit, "available_bytes", lambda: free - 1)
    with pytest.raises(TraceError, match="of memory"):
        open_trace([path])


def sparse(path: Path, size: int, age_s: float = 0.0) -> Path:
    """A file that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(size)
    os.utime(path, (NOW - age_s, NOW - age_s))
    return path


@pytest.mark.parametrize(
    ("packed", "room"),
    [(1_000, 256 * MB), (MB, 300 * MB), (GB, 64 * GB)],
    ids=["always", "by its size", "at most"],
)
def test_the_files_of_an_archive_may_take_so_much_together(packed: int, room: int, tmp_path: Path) -> None:
    assert containers._room(sparse(tmp_path / "archive", packed)) == room


@pytest.mark.parametrize(("packed", "most"), [(1_000, GB), (100 * MB, 20_000 * MB)])
def test_a_packed_database_may_unpack_to_so_much_where_the_disk_has_room(
    packed: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless:
        """Unpacks to blocks of 100 MB that are none."""

        def __init__(self) -> None:
            self.given = 0

        def __enter__(self) -> Endless:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def read(self, _: int) -> Block:
            self.given += 100 * MB
            return Block()

    class Block(bytes):
        def __len__(self) -> int:
            return 100 * MB

    endless = Endless()
    monkeypatch.setattr(private_copy, "open_bytes", lambda _: endless)
    monkeypatch.setattr(private_copy, "room_for_more", lambda _: 1 << 50)
    with pytest.raises(TraceError, match="Unpacked, it is larger than"):
        private_copy.unpacked(Source(sparse(tmp_path / "run.gz", packed), b"", "gzip"), Progress())
    assert most < endless.given <= most + 100 * MB


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        ({"new": (10 * GB, 1), "old": (10 * GB, 13.9 * DAY_S)}, {"new", "old"}),
        ({"new": (10 * GB, 1), "old": (10 * GB, 14.1 * DAY_S)}, {"new"}),
        ({"new": (10 * GB, 1), "old": (10 * GB + 1, 2)}, {"new"}),
    ],
    ids=["all", "nobody opened it for two weeks", "more than 20 GB"],
)
def test_unpacked_databases_stay_for_two_weeks_and_within_20_gigabytes(
    files: dict[str, tuple[int, float]], kept: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_copy.time, "time", lambda: NOW)
    for name, (size, age_s) in files.items():
        sparse(tmp_path / name, size, age_s)
    private_copy._tidy(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == kept


@pytest.mark.parametrize(
    ("pages", "most"), [(16 * GB // 4096, 53_687_091), (None, 60_000_000)], ids=["16 GB", "not known"]
)
def test_events_may_take_half_of_the_memory(
    pages: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sysconf(name: str) -> int:
        if pages is None:
            raise ValueError(name)
        return {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": pages}[name]

    monkeypatch.setattr(reading.os, "sysconf", sysconf)
    assert reading.most_events() == most


@pytest.mark.parametrize(
    ("file", "allowed"),
    [
        (
            "ncu/lines.ncu-rep.gz",
            {
                "names": (500_000, 1, 500_000),
                "launches": (10_000, 64, 500_000),
                "instructions": (500_000, 8, 4_000_000),
            },
        )
    ],
)
def test_of_what_a_file_holds_so_much_is_free_and_the_rest_needs_bytes(
    file: str, allowed: dict[str, tuple[float, ...]], fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, tuple[float, ...]] = {}
    monkeypatch.setattr(UnpackingLimit, "make", lambda _, what, __, *limits: made.update({what: limits}))
    open_trace([fixtures / file])
    assert {what: made.get(what) for what in allowed} == allowed
