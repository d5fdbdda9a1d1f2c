"""Whatever the system refuses, a command ends with one sentence and exit code 2; 1 means that a gate failed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import resources
import viewer.__main__
from parsers import open_trace
from parsers.model import TraceError
from viewer.cli import main
from viewer.terminal.exit_codes import BAD_INPUT, BROKEN, DONE, INTERRUPTED

SAMPLE = resources.path("samples/cpu_python.pt.trace.json.gz")
FULL = Path("/dev/full")
needs_full_device = pytest.mark.skipif(
    not FULL.exists(), reason="this system has no device that is always full"
)


def run(
    *arguments: str | bytes | Path, stdin: bytes = b"", **where: object
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "viewer.cli", *arguments]
    options: dict[str, object] = {"stdout": subprocess.PIPE, **where}
    return subprocess.run(command, input=stdin, stderr=subprocess.PIPE, timeout=110, check=False, **options)  # type: ignore[call-overload, no-any-return]


def is_one_sentence(said: bytes) -> bool:
    return said.startswith(b"stallscope: ") and said.count(b"\n") == 1 and b"Traceback" not in said


@needs_full_device
@pytest.mark.parametrize(
    "command",
    [
        ["diagnose", str(SAMPLE), "--json"],
        pytest.param(["diagnose", str(SAMPLE)], marks=pytest.mark.thorough),
        pytest.param(["self-check"], marks=pytest.mark.thorough),
    ],
)
def test_an_output_for_which_there_is_no_room_is_said(command: list[str]) -> None:
    with FULL.open("wb") as full:
        ended = run(*command, stdout=full)
    assert ended.returncode == BAD_INPUT
    assert is_one_sentence(ended.stderr)
    assert b"no space left" in ended.stderr


@pytest.mark.thorough
def test_a_recording_whose_name_is_no_text_is_diagnosed_and_reported(tmp_path: Path) -> None:
    recording = os.fsencode(tmp_path) + b"/run-\xff\xfe.json.gz"
    Path(os.fsdecode(recording)).write_bytes(SAMPLE.read_bytes())
    page = tmp_path / "page.html"
    for more in ([b"--html", os.fsencode(page), b"--json"], []):
        ended = run("diagnose", recording, *more)
        assert (ended.returncode, ended.stderr) == (DONE, b"")
    assert "cpu" in page.read_text("utf-8").lower()


def no_room(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_an_archive_that_cannot_be_unpacked_for_lack_of_room_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.write(SAMPLE, "a.json.gz")

    class Full(io.FileIO):
        write = no_room

    opened = Path.open

    def full_when_written(path: Path, mode: str = "r", *more: object, **options: object) -> object:
        return Full(path, "w") if "w" in mode else opened(path, mode, *more, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("parsers.files.containers.Path.open", full_when_written)
    with pytest.raises(TraceError, match="no space left on the disk"):
        open_trace([tmp_path / "run.zip"])


def test_standard_input_for_which_there_is_no_room_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.copyfileobj", no_room)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    assert main(["diagnose", "-"]) == BAD_INPUT
    assert "no space left on the disk" in capsys.readouterr().err


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A recording that the command reads in its own process."""
    path = tmp_path / "run.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}')
    return path


def raising(error: BaseException) -> Callable[..., None]:
    def read(*_: object, **__: object) -> None:
        raise error

    return read


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory"),
        (RecursionError(), "nested too deeply"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "not valid text"),
        (PermissionError(13, "Permission denied", "/somewhere"), "/somewhere: Permission denied"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(
    error: BaseException,
    said: str,
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("parsers.open_trace", raising(error))
    assert main(["diagnose", str(small)]) == BAD_INPUT
    written = capsys.readouterr().err
    assert is_one_sentence(written.encode())
    assert said in written


def test_stopping_the_program_while_it_is_loaded_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewer.cli.main", raising(KeyboardInterrupt()))
    assert viewer.__main__.main() == INTERRUPTED


def test_whoever_stops_the_program_at_once_interrupts_none_of_its_imports(repository: Path) -> None:
    code = "import sys; before = {*sys.modules}; import stallscope.__main__; print(*sorted({*sys.modules} - before))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= {"__future__", "stallscope", "stallscope.__main__"}


def test_a_mistake_of_the_program_is_not_taken_for_a_failed_gate(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("parsers.open_trace", raising(ZeroDivisionError("ours")))
    assert main(["diagnose", str(small)]) == BROKEN
    assert "ZeroDivisionError: ours" in capsys.readouterr().err
