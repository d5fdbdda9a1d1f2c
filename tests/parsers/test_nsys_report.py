"""A report is converted by the user's nsys, once, away from its folder; without one a sentence says what to do."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Cancelled, Progress, TraceError
from parsers.nsys import conversion
from parsers.sqlite import private_copy
from tests.parsers.nsys_exports import export, kernel

HEADER = b"NVIDIA Tegra Profiler Report 2026@1@1@204-261137\0"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "run.nsys-rep"
    path.write_bytes(HEADER + bytes(range(256)) * 10)
    return path


@pytest.fixture
def no_nsys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(conversion, "_PLACES", ())


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Installs a program that behaves as told in nsys's place, and counts its runs."""
    database = export(
        tmp_path / "made.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel(1, 9), kernel(11, 15)]}
    )
    folder = tmp_path / "bin"
    folder.mkdir()

    def install(body: str) -> Path:
        program = folder / "nsys"
        program.write_text(
            f"#!{sys.executable}\nimport shutil, sys, time\n"
            f"open({str(folder / 'runs')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
            f"made = {str(database)!r}\n"
            "output = next(each.split('=', 1)[1] for each in sys.argv if each.startswith('--output='))\n"
            + body
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        return folder / "runs"

    return install


@pytest.mark.usefixtures("no_nsys")
def test_without_nsys_the_sentence_says_what_to_run_and_where(report: Path) -> None:
    with pytest.raises(TraceError) as caught:
        open_trace([report])
    assert "of version 2026.1.1" in caught.value.problem
    assert caught.value.hint.endswith("nsys export --type sqlite run.nsys-rep")


def test_a_report_is_converted_once_and_away_from_its_folder(report: Path, nsys) -> None:  # type: ignore[no-untyped-def]
    runs = nsys("shutil.copyfile(made, output)\n")
    for _ in range(2):
        trace = open_trace([report])
        assert len(trace.gpu_operations) == 2
        assert (trace.inputs[0].path, trace.inputs[0].format) == (str(report), "nsys-report")
        assert trace.arguments(0)["start"] == 1
    assert len(runs.read_text().splitlines()) == 1
    assert "--type=sqlite" in runs.read_text()
    assert [file.name for file in report.parent.iterdir()] == ["run.nsys-rep"]


def test_a_compressed_report_is_converted(report: Path, nsys) -> None:  # type: ignore[no-untyped-def]
    nsys("assert open(sys.argv[-1], 'rb').read(6) == b'NVIDIA'\nshutil.copyfile(made, output)\n")
    report.write_bytes(gzip.compress(report.read_bytes()))
    assert len(open_trace([report]).gpu_operations) == 2


def test_what_nsys_says_when_it_fails_is_passed_on(report: Path, nsys) -> None:  # type: ignore[no-untyped-def]
    nsys("print('Processing'); print('FATAL: the report is newer than this tool'); sys.exit(1)\n")
    with pytest.raises(TraceError, match="the report is newer than this tool"):
        open_trace([report])
    assert not list(private_copy.cache_folder().iterdir())


def test_an_nsys_that_makes_nothing_is_a_failure(report: Path, nsys) -> None:  # type: ignore[no-untyped-def]
    nsys("")
    with pytest.raises(TraceError, match="could not convert"):
        open_trace([report])


def test_a_conversion_can_be_cancelled_and_leaves_nothing(report: Path, nsys) -> None:  # type: ignore[no-untyped-def]
    nsys("open(output, 'wb').write(b'half'); time.sleep(60)\n")
    progress = Progress(lambda _, doing: progress.cancel() if "converting" in doing else None)
    with pytest.raises(Cancelled):
        open_trace([report], progress)
    assert not list(private_copy.cache_folder().iterdir())


def test_a_raw_stream_is_told_apart_from_a_report(tmp_path: Path) -> None:
    path = tmp_path / "run.qdstrm"
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(TraceError, match="raw stream") as caught:
        open_trace([path])
    assert "QdstrmImporter" in caught.value.hint


def test_the_newest_of_several_installations_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for version in ("2024.10.1", "2024.9.3", "2023.4.4"):
        program = tmp_path / version / "bin" / "nsys"
        program.parent.mkdir(parents=True)
        program.touch(0o755)
    monkeypatch.setattr(conversion, "_PLACES", ((str(tmp_path), "*/bin/nsys"),))
    assert conversion.find_nsys() == tmp_path / "2024.10.1" / "bin" / "nsys"


@pytest.mark.usefixtures("no_nsys")
def test_in_a_folder_the_export_beside_a_report_is_read_instead(report: Path) -> None:
    export(report.with_suffix(".sqlite"), {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel(1, 9)]})
    trace = open_trace([report.parent])
    assert (len(trace.gpu_operations), len(trace.inputs), trace.ranks) == (1, 1, ())
    assert "run.nsys-rep: The export beside it" in str(trace.quality.notes)
