"""Folders and archives of recordings open as one run; what does not belong is listed."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.files import containers
from parsers.files.containers import contents
from parsers.model import Effect, Progress, Trace, TraceError
from tests.parsers.chrome.traces import complete, kernel, note, packed, text_of

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BASE = 1_790_857_026_000_000_000


def rank_file(
    rank: int | None, late: float = 0.0, world: int = 4, base: int = BASE, collectives: int = 20
) -> str:
    """One rank of a run: steps of a kernel and an all-reduce that ends on all ranks together; ``late`` is in us."""
    events = [complete("op", 100 + late, 5, args={"rank": rank})]
    for number in range(collectives):
        at = 1000 + number * 1000 + late
        events += [kernel("gemm", at, 300), kernel(NCCL, at + 300, 100 + number * 10, 0, 20)]
    about = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world}}
    return text_of(events, schemaVersion=1, baseTimeNanoseconds=base, **about)


def folder_of(tmp_path: Path, files: dict[str, str | bytes]) -> Path:
    folder = tmp_path / "run"
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def ranks(trace: Trace) -> list[int]:
    return [rank.rank for rank in trace.ranks]


FILES: dict[str, str | bytes] = {f"r{rank}.json": rank_file(rank) for rank in range(4)}


def zipped(files: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files: dict[str, str | bytes], mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_a_folder_of_ranks_is_one_run_and_other_files_are_listed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {**FILES, "notes.txt": "hello", "deep/empty.json": "{}", ".hidden": "x"})
    trace = open_trace([folder])
    assert ranks(trace) == [0, 1, 2, 3]
    assert [device.rank for device in trace.devices] == [0, 1, 2, 3]
    assert note(trace, "file-not-read") == (2, Effect.NOTED)


@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz"])
def test_an_archive_of_ranks_is_one_run_whatever_it_is_called(tmp_path: Path, form: str) -> None:
    files = {**FILES, "r3.json": packed(rank_file(3)), "../../evil.txt": "no", "__MACOSX/r0.json": "x"}
    data = {"zip": zipped(files), "tar": tarred(files, "w"), "tar.gz": tarred(files, "w:gz")}[form]
    path = tmp_path / "upload.bin"
    path.write_bytes(data)
    trace = open_trace([path])
    assert ranks(trace) == [0, 1, 2, 3]
    assert not (tmp_path.parent / "evil.txt").exists()
    found = {
        trace.arguments(event)["rank"] for event in range(len(trace.events)) if trace.name(event) == "op"
    }
    assert found == {0, 1, 2, 3}


@pytest.mark.usefixtures("only_new_garbage")
def test_unpacked_files_vanish_with_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    path.write_bytes(zipped(FILES))
    trace = open_trace([path])
    source = trace.sources[0]
    assert isinstance(source, containers.Unpacked)
    folder = source.folder.path
    assert folder.stat().st_mode & 0o077 == 0
    del trace, source
    import gc

    gc.collect()
    assert not folder.exists()


def test_an_archive_bomb_stops_at_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_FREE_GROWTH", 1 << 20)
    path = tmp_path / "bomb.zip"
    path.write_bytes(zipped({"a.json": "[" + " " * (8 << 20)}))
    with pytest.raises(TraceError, match="unpacks to more than"):
        open_trace([path])


@pytest.mark.parametrize("missing", [1100, 4000, 9000])
def test_a_cut_archive_gives_what_is_left(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "cut.tar"
    path.write_bytes(tarred(FILES, "w")[:-missing])
    trace = open_trace([path])
    assert len(ranks(trace)) >= 2


@pytest.mark.parametrize("length", [100, 520, 600])
def test_an_archive_cut_in_its_first_file_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut.tar"
    path.write_bytes(tarred(FILES, "w")[:length])
    with pytest.raises(TraceError):
        open_trace([path])


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_member_of_a_zip_leaves_those_before_it(tmp_path: Path, method: int) -> None:
    path = tmp_path / "damaged.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        place = archive.getinfo("r2.json").header_offset
    data = bytearray(path.read_bytes())
    data[place + 60 : place + 160] = b"\xa5" * 100
    path.write_bytes(bytes(data))
    trace = open_trace([path])
    assert ranks(trace) == [0, 1]
    assert note(trace, "file-not-read") == (1, Effect.NOTED)


def test_damage_in_a_zip_is_said(tmp_path: Path) -> None:
    path = tmp_path / "cut.zip"
    path.write_bytes(zipped(FILES)[:-30])
    with pytest.raises(TraceError, match="damaged"):
        open_trace([path])


def test_ranks_may_be_missing_and_many(tmp_path: Path) -> None:
    chosen = [0, 2, *range(5, 20)]
    folder = folder_of(tmp_path, {f"{rank:03}.json": rank_file(rank, world=32) for rank in chosen})
    assert ranks(open_trace([folder])) == chosen


def test_of_a_folder_with_everything_wrong_what_fits_is_one_run_and_the_rest_is_listed(
    tmp_path: Path,
) -> None:
    chosen = [0, 1, *range(4, 22)]
    files: dict[str, str | bytes] = {
        f"host{rank}/{rank:03}.json": rank_file(rank, world=32) for rank in chosen
    }
    files |= {
        "again/004.json": rank_file(4, world=32),
        "other/000.json": rank_file(0, world=8),
        "other/006.json": rank_file(6, world=8),
        "yesterday/030.json": rank_file(30, world=32, base=BASE - 86_400 * 10**9),
        "notes.txt": "hello",
        "broken.json": "{",
        "empty.json": "",
        "cut.json.gz": packed(rank_file(2, world=32))[:200],
    }
    trace = open_trace([folder_of(tmp_path, files)])
    assert sorted(ranks(trace)) == sorted(chosen)
    left_out = next(each for each in trace.quality.notes if each.kind == "left-out")
    unread = next(each for each in trace.quality.notes if each.kind == "file-not-read")
    assert left_out.count + unread.count == 8
    assert unread.count in (3, 4)
    assert trace.duration < 60 * 10**6


def test_the_same_rank_twice_is_shown_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {**FILES, "z.json": rank_file(2)})
    trace = open_trace([folder])
    assert ranks(trace) == [0, 1, 2, 3]
    assert note(trace, "left-out") == (1, Effect.NOTED)


def test_a_rank_of_another_world_is_left_out(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {**FILES, "z.json": rank_file(5, world=8)})
    trace = open_trace([folder])
    assert ranks(trace) == [0, 1, 2, 3]
    assert note(trace, "left-out") == (1, Effect.NOTED)


def test_a_file_of_another_day_is_left_out(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {**FILES, "r3.json": rank_file(3, base=BASE + 86_400 * 10**9)})
    trace = open_trace([folder])
    assert ranks(trace) == [0, 1, 2]
    assert trace.duration < 60 * 10**6


def test_files_without_a_rank_are_numbered_by_name_else_by_order(tmp_path: Path) -> None:
    named = folder_of(tmp_path, {"a.rank7.json": rank_file(None), "b.rank2.json": rank_file(None)})
    assert ranks(open_trace([named])) == [2, 7]
    plain = folder_of(tmp_path / "other", {"a.json": rank_file(None), "b.json": rank_file(None)})
    assert ranks(open_trace([plain])) == [0, 1]


def starts_of_rank(trace: Trace, rank: int) -> list[int]:
    lanes = [
        index for index, lane in enumerate(trace.lanes) if lane.rank == rank and lane.name == "GPU 0 stream 7"
    ]
    events = trace.events.lane_slice(lanes[0])
    return trace.events.start[events].tolist()


def test_a_clear_skew_of_clocks_is_corrected(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"0.json": rank_file(0), "1.json": rank_file(1, late=400.0)}
    trace = open_trace([folder_of(tmp_path, files)])
    assert note(trace, "clock-skew") == (1, Effect.REPAIRED)
    assert starts_of_rank(trace, 0) == starts_of_rank(trace, 1)
    assert [rank.clock_error_ns for rank in trace.ranks] == [0, 0]


def test_a_small_offset_of_clocks_is_stated_and_not_corrected(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"0.json": rank_file(0), "1.json": rank_file(1, late=40.0)}
    trace = open_trace([folder_of(tmp_path, files)])
    assert note(trace, "clock-offset") == (1, Effect.NOTED)
    assert starts_of_rank(trace, 1)[0] - starts_of_rank(trace, 0)[0] == 40_000
    assert [rank.clock_error_ns for rank in trace.ranks] == [0, 40_000]


def test_ranks_that_recorded_different_numbers_of_collectives_are_compared(tmp_path: Path) -> None:
    early = rank_file(0, collectives=30)
    late = rank_file(1, late=400.0, collectives=20)
    trace = open_trace([folder_of(tmp_path, {"0.json": early, "1.json": late})])
    assert starts_of_rank(trace, 0)[:20] == starts_of_rank(trace, 1)


def test_regular_steps_are_not_paired_a_step_apart(tmp_path: Path) -> None:
    def regular(rank: int, late: float, first: int, jitter: float) -> str:
        events = []
        for number in range(first, 40):
            wobble = jitter * (number % 3)
            events.append(kernel(NCCL, 1000 + number * 1000 + late + wobble, 100, 0, 20))
        about = {"distributedInfo": {"rank": rank, "world_size": 2}}
        return text_of(events, schemaVersion=1, baseTimeNanoseconds=BASE, **about)

    files: dict[str, str | bytes] = {"0.json": regular(0, 0, 0, 0), "1.json": regular(1, 3, 2, 1.0)}
    trace = open_trace([folder_of(tmp_path, files)])
    assert note(trace, "clock-offset") == (1, Effect.NOTED)
    assert max(rank.clock_error_ns or 0 for rank in trace.ranks) < 10_000


def test_without_collectives_the_clock_error_is_unknown(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {f"{rank}.json": rank_file(rank, collectives=0) for rank in range(2)}
    trace = open_trace([folder_of(tmp_path, files)])
    assert [rank.clock_error_ns for rank in trace.ranks] == [None, None]


def test_four_real_ranks_are_one_run_in_whatever_order_their_files_come(fixtures: Path) -> None:
    trace = open_trace(sorted((fixtures / "ddp").glob("no_overlap.rank*.json.gz"), reverse=True))
    assert ranks(trace) == [0, 1, 2, 3]
    assert [device.id for device in trace.devices] == [0, 1, 2, 3]
    assert len({lane.rank for lane in trace.lanes}) == 4
    alone = open_trace([fixtures / "ddp" / "no_overlap.rank2.pt.trace.json.gz"])
    assert len(trace.operations_of_device(2)) == len(alone.gpu_operations)
    assert (trace.epoch_ns or 0) <= (alone.epoch_ns or 0)
    assert trace.epoch_ns is not None


def test_a_tar_of_mixed_formats_is_one_run(tmp_path: Path, fixtures: Path) -> None:
    timeline = (fixtures / "torch" / "elementwise_chain.pt.trace.json.gz").read_bytes()
    kernels = next(iter(sorted((fixtures / "ncu").glob("*.raw.csv*")))).read_bytes()
    path = tmp_path / "mixed.tar"
    path.write_bytes(tarred({"a.json": timeline, "b.csv": kernels, "c.md": "# notes"}, "w"))
    trace = open_trace([path])
    assert len(trace.gpu_operations) == 209
    assert len(trace.kernels) > 0
    assert len(trace.inputs) == 2
    assert note(trace, "file-not-read") == (1, Effect.NOTED)


def test_every_member_of_an_archive_that_is_left_out_is_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "run.tar"
    with tarfile.open(path, "w") as archive:

        def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
            about = tarfile.TarInfo(name)
            about.size, about.type, about.linkname = len(content), kind, link
            archive.addfile(about, io.BytesIO(content))

        member("rank0.json", rank_file(0).encode())
        member("../run/rank1.json", rank_file(1).encode())
        member(".cache/run/rank2.json", rank_file(2).encode())
        member("rank3.json", kind=tarfile.LNKTYPE, link="rank0.json")
        member("latest.json", kind=tarfile.SYMTYPE, link="rank0.json")
        member("pipe", kind=tarfile.FIFOTYPE)
        member("__MACOSX/rank0.json", b"x")
        member(".DS_Store", b"x")
    trace = open_trace([path])
    assert sorted(rank.rank for rank in trace.ranks) == [0, 1, 2]
    (note,) = (note for note in trace.quality.notes if note.kind == "file-not-read")
    assert note.count == 5
    skipped = dict(contents(path, Progress()).skipped)
    assert skipped == {
        "rank3.json": "it is a link to another member, which is not followed",
        "latest.json": "it is a symbolic link, which is not followed",
        "pipe": "it is a pipe",
        "__MACOSX/rank0.json": "macOS keeps notes about a file in it",
        ".DS_Store": "it is hidden",
    }
