"""What is no recording, or would fill the computer, is refused in one sentence with a hint; nothing in it is run."""

from __future__ import annotations

import errno
import gc
import gzip
import io
import itertools
import os
import pickle  # noqa: TID251 - to write what must never be read
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from parsers import open_trace
from parsers.files import containers
from parsers.formats import chrome_trace
from parsers.model import Trace, TraceError
from tests.examples import one_of
from tests.parsers.chrome.traces import complete, text_of
from tests.parsers.nsys_exports import export, kernel
from tests.parsers.test_ncu_csv import raw_page
from tests.parsers.test_ncu_report import metric, number, report, result
from tests.parsers.test_smi_log import DMON
from viewer.cli import main

JSON = text_of([complete(f"op{number}", number * 10, 5) for number in range(300)]).encode()
PAGE = raw_page([(str(launch), "k", "1.5") for launch in range(300)]).encode()
LOG = (DMON + "\n".join(DMON.splitlines()[2:5] * 40) + "\n").encode()
REPORT = report(
    *(result(metric(0, number(5, each)), name=b"k" * 90) for each in range(300)), names=("a.sum",)
)


def exported(folder: Path) -> bytes:
    rows = [kernel(each * 10 + 1, each * 10 + 5, each) for each in range(600)]
    return export(folder / "made.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": rows}).read_bytes()


def tarred(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("a.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zipped(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", content)
    return buffer.getvalue()


def plain(content: bytes) -> bytes:
    return content


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda content: gzip.compress(content, 9),
    "zstd": zstandard.compress,
    "zip": zipped,
    "tar.gz": lambda content: gzip.compress(tarred(content), 9),
    "tar.zst": lambda content: zstandard.compress(tarred(content)),
}


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bombs of some megabytes then are what bombs of gigabytes are otherwise."""
    monkeypatch.setattr(chrome_trace, "ALWAYS_ALLOWED", 1 << 20)
    monkeypatch.setattr(containers, "_FREE_GROWTH", 1 << 20)
    monkeypatch.setattr("parsers.files.unpacking_limit.ALWAYS_ALLOWED", 1 << 20)
    monkeypatch.setattr("parsers.sqlite.private_copy.ALWAYS_ALLOWED", 1 << 20)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files lie during the test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


BOMBS = {
    "json of spaces": JSON[:-2] + b" " * (4 << 20),
    "json of one name": JSON[:-2] + b',{"ph":"X","name":"' + b"x" * (4 << 20),
    "csv of empty lines": PAGE + b"\n" * (4 << 20),
    "csv of one cell": PAGE + b'"' + b"x" * (4 << 20),
    "log of empty lines": LOG + b"\n" * (4 << 20),
    "log of one line": LOG + b"9" * (4 << 20),
    "report of zeros": REPORT[:-4] + bytes(4 << 20),
}


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize(("bomb", "packing"), one_of(3, itertools.product(sorted(BOMBS), sorted(PACKINGS))))
def test_a_file_that_unpacks_without_end_stops_at_a_limit(
    tmp_path: Path, temporary: Path, packing: str, bomb: str
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(PACKINGS[packing](BOMBS[bomb]))
    assert path.stat().st_size * 100 < 4 << 20
    refused: list[tuple[str, str]] = []
    notes: set[str] = set()
    try:
        notes = {note.kind for note in open_trace([path]).quality.notes}
    except TraceError as error:
        refused.append((error.problem, error.hint))
    assert all(problem.endswith(".") and hint for problem, hint in refused)
    assert refused or notes & {"cut", "damaged-report"}
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("low_limits", "only_new_garbage")
@pytest.mark.parametrize("packing", one_of(3, sorted(PACKINGS)))
def test_a_database_that_unpacks_without_end_stops_at_a_limit(
    tmp_path: Path, temporary: Path, packing: str
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(PACKINGS[packing](exported(tmp_path) + bytes(20 << 20)))
    with pytest.raises(TraceError) as caught:
        open_trace([path])
    assert re.search(r"not enough space|unpacks to more than", caught.value.problem)
    del caught
    gc.collect()
    assert list(temporary.iterdir()) == []


FORMATS: dict[str, Callable[[Path], bytes]] = {
    "json": lambda _: JSON,
    "ncu csv": lambda _: PAGE,
    "ncu report": lambda _: REPORT,
    "log": lambda _: LOG,
    "nsys": exported,
}


def amount(trace: Trace) -> int:
    return len(trace.events) + len(trace.kernels) + sum(len(each.time) for each in trace.counters)


NAMES = ("run", "run.json", "run.gz", "run.pb", "run.sqlite", "run.csv", "run.txt")


@pytest.mark.parametrize("form", one_of(2, sorted(FORMATS)))
def test_every_format_is_recognised_under_every_name(tmp_path: Path, form: str) -> None:
    content = FORMATS[form](tmp_path)
    found = {}
    for packing, pack in {"plain": plain, **PACKINGS}.items():
        packed = pack(content)
        for name in NAMES:
            (tmp_path / name).write_bytes(packed)
            found[packing, name] = amount(open_trace([tmp_path / name]))
    assert len(set(found.values())) == 1, found
    assert found["plain", "run"] > 0


LARGE: dict[str, Callable[[], bytes]] = {
    "json": lambda: text_of([complete(f"op{number}", number * 10, 5) for number in range(12_000)]).encode(),
    "ncu csv": lambda: raw_page([(str(launch), f"k{launch}", "1.5") for launch in range(9_000)]).encode(),
    "ncu report": lambda: report(
        *(result(metric(0, number(5, each)), name=b"k%d" % each * 20) for each in range(9_000)),
        names=("a.sum",),
    ),
    "log": lambda: LOG * 150,
}


@pytest.mark.parametrize("form", one_of(2, sorted(LARGE)))
def test_of_a_cut_packed_file_everything_before_the_cut_is_kept_with_a_warning(
    tmp_path: Path, form: str
) -> None:
    large = LARGE[form]()
    assert len(large) > 5 * 131_072, "zstd packs blocks of 128 KB"
    (tmp_path / "whole").write_bytes(large)
    whole = amount(open_trace([tmp_path / "whole"]))
    for pack in (gzip.compress, zstandard.compress):
        packed = pack(large)
        (tmp_path / "cut").write_bytes(packed[: len(packed) * 4 // 5])
        trace = open_trace([tmp_path / "cut"])
        assert whole // 4 < amount(trace) < whole
        assert {note.kind for note in trace.quality.notes} & {"cut", "cut-file", "damaged-report"}


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("packing", ["plain", *sorted(PACKINGS)])
def test_a_pickle_is_refused_and_never_loaded(tmp_path: Path, protocol: int, packing: str) -> None:
    mark = tmp_path / "was run"
    data = pickle.dumps({"segments": [], "device_traces": [Hostile(mark)]}, protocol)
    for name in ("snapshot.pickle", "snapshot.json"):
        (tmp_path / name).write_bytes(PACKINGS.get(packing, plain)(data))
        with pytest.raises(TraceError) as caught:
            open_trace([tmp_path / name])
        assert caught.value.hint
    assert not mark.exists()


def test_a_memory_snapshot_is_called_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}, 2))
    with pytest.raises(TraceError, match="memory snapshot") as caught:
        open_trace([path])
    assert caught.value.hint


@pytest.fixture
def no_recording(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A path with nothing to show, by the name of what it is."""
    path = tmp_path / "received"
    match request.param:
        case "nothing":
            path.write_bytes(b"")
        case "metadata only":
            path.write_text('{"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"x"}}]}')
        case "no events":
            path.write_text('{"traceEvents":[]}')
        case "zeros":
            path.write_bytes(bytes(4096))
        case "empty folder":
            path.mkdir()
        case "folder of other things":
            path.mkdir()
            (path / "notes.md").write_text("# notes")
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)
        case "dangling link":
            path.symlink_to(tmp_path / "gone")
    return path


STATES = [
    "nothing", "metadata only", "no events", "zeros", "empty folder", "folder of other things", "pipe", "device",
    "loop", "dangling link", "absent",
]  # fmt: skip


@pytest.mark.parametrize("no_recording", STATES, indirect=True)
def test_nothing_to_show_is_one_sentence_and_exit_code_2(
    no_recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(no_recording)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("stallscope: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    with pytest.raises(TraceError) as caught:
        open_trace([no_recording])
    assert caught.value.hint


def test_a_file_that_may_not_be_read_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secret.json"
    path.write_bytes(JSON)
    path.chmod(0)
    if os.geteuid() == 0:  # who may read everything
        usual = Path.open

        def refused(file: Path, *more: Any, **named: Any) -> Any:
            if file == path:
                raise PermissionError(13, "Permission denied", str(path))
            return usual(file, *more, **named)

        monkeypatch.setattr(Path, "open", refused)
    assert main(["diagnose", str(path)]) == 2
    assert "may not read" in capsys.readouterr().err


class Vanishing(io.FileIO):
    """A file of a network folder that is gone after some bytes."""

    left = 0

    def readinto(self, buffer: Any, /) -> int | None:
        if Vanishing.left <= 0:
            raise OSError(errno.EIO, "Input/output error")
        read = super().readinto(memoryview(buffer)[: max(Vanishing.left, 1)])
        Vanishing.left -= read or 0
        return read

    def read(self, size: int | None = -1, /) -> bytes:
        data = bytearray(1 << 16 if size is None or size < 0 else size)
        return bytes(data[: self.readinto(data)])

    readall = read


@pytest.mark.parametrize(
    "content", [JSON, gzip.compress(JSON), PAGE, LOG, REPORT], ids=["JSON", "packed", "page", "log", "report"]
)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.2, 1.9])
def test_a_folder_that_is_gone_while_it_is_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, share: float
) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    whole = open_trace([path])
    usual = Path.open
    Vanishing.left = int(share * len(content))

    def opened(file: Path, mode: str = "r", buffering: int = -1, *more: Any) -> Any:
        if file != path:
            return usual(file, mode, buffering, *more)
        return Vanishing(file) if buffering == 0 else io.BufferedReader(Vanishing(file))

    monkeypatch.setattr(Path, "open", opened)
    refused: list[str] = []
    noted = 0
    try:
        noted = len(open_trace([path]).quality.notes) - len(whole.quality.notes)
    except (TraceError, OSError) as error:  # of the latter a command makes a sentence
        refused.append(str(error))
    assert noted > 0 or re.search("Input/output error|cannot be read", refused[0])


@pytest.mark.skipif(os.name == "nt", reason="files have no holes there")
def test_a_file_that_is_hardly_anything_but_a_hole_is_refused_by_what_was_written(tmp_path: Path) -> None:
    (path := tmp_path / "run.pickle").write_bytes(b"\x80\x04}\x94(")
    os.truncate(path, 20 << 30)
    with pytest.raises(TraceError, match=r"of this file's 21\.5 GB were written"):
        open_trace([path])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
def test_a_file_without_a_size_is_not_read(capfd: pytest.CaptureFixture[str]) -> None:
    """It may never end, or wait for ever, as /proc/kmsg does."""
    assert main(["diagnose", "/proc/self/status"]) == 2
    assert "The file is empty" in capfd.readouterr().err
