"""Exports in which something was not recorded: they open, and what cannot be checked is said with the reason."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace
from rules import diagnose, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict
from tests.parsers.nsys_exports import call, copy, export, kernel, nvtx

STEPS = 4
TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        kernel(1000 + step * 100_000 + number * 2000, 2500 + step * 100_000 + number * 2000, step * 20 + number + 1)
        for step in range(STEPS)
        for number in range(20)
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [
        copy(60_000 + step * 100_000, 70_000 + step * 100_000, 900 + step) for step in range(STEPS)
    ],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        call(100 + step * 100_000 + number * 1000, 600 + step * 100_000 + number * 1000, step * 20 + number + 1)
        for step in range(STEPS)
        for number in range(20)
    ],
    "NVTX_EVENTS": [nvtx(step * 100_000, step * 100_000 + 99_000, f"step_{step}") for step in range(STEPS)],
    "TARGET_INFO_GPU": [{"id": 0, "name": "NVIDIA H200", "smCount": 132, "totalMemory": 10**11, "computeMajor": 9}],
    "META_DATA_EXPORT": [{"name": "EXPORT_PRODUCT_VERSION", "value": "2026.1.1.204"}],
    "OSRT_API": [call(50, 90, eventClass=27)],
}  # fmt: skip


def exported(
    folder: Path, without: str = "", empty: str = "", renamed: str = "", extra: bool = False
) -> Trace:
    tables = {}
    for name, rows in TABLES.items():
        if name == without:
            continue
        chosen = [] if name == empty else rows
        if extra:
            chosen = [{**row, "addedLater": 7, "start of": "x"} for row in chosen]
        tables[name + "_V3" if name == renamed else name] = chosen
    return open_trace([export(folder / "run.sqlite", tables)])


def explained(trace: Trace) -> dict[str, str]:
    """Rules that were not checked, with the reason."""
    diagnosis = diagnose(trace)
    assert diagnosis.crashed == {}
    assert all(reason.strip() for reason in diagnosis.skipped.values())
    return dict(diagnosis.skipped)


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("table", sorted(TABLES))
def test_an_export_without_a_table_opens_and_says_what_it_cannot_check(
    tmp_path: Path, is_empty: bool, table: str
) -> None:
    trace = exported(tmp_path, empty=table) if is_empty else exported(tmp_path, without=table)
    skipped = explained(trace)
    assert skipped, "counters of kernels at least are in no such export"
    if table not in ("META_DATA_EXPORT", "TARGET_INFO_GPU"):
        assert len(trace.events) == sum(
            len(rows) for name, rows in TABLES.items() if name != table and "INFO" not in name and "META" not in name
        )  # fmt: skip


def test_checks_that_need_what_is_missing_are_named_with_it(tmp_path: Path) -> None:
    complete = explained(exported(tmp_path))
    (tmp_path / "run.sqlite").unlink()
    without_calls = explained(exported(tmp_path, without="CUPTI_ACTIVITY_KIND_RUNTIME"))
    assert set(without_calls) > set(complete)
    assert any("API calls" in reason for reason in without_calls.values())


@pytest.mark.parametrize("table", sorted(TABLES))
def test_a_table_under_a_later_name_and_with_further_columns_says_the_same(
    tmp_path: Path, table: str
) -> None:
    usual = exported(tmp_path)
    (tmp_path / "run.sqlite").unlink()
    changed = exported(tmp_path, renamed=table, extra=True)
    assert changed.strings == usual.strings
    assert changed.events.start.tolist() == usual.events.start.tolist()
    assert [device.name for device in changed.devices] == [device.name for device in usual.devices]
    assert len(changed.links.operation) == len(usual.links.operation) == 80


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A folder that belongs to another user, who shares what is in it for reading."""
    folder = Path(tempfile.mkdtemp(prefix="foreign-"))
    yield folder
    subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
    shutil.rmtree(folder)


AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from parsers import open_trace
home, folder = map(Path, sys.argv[1:])
os.environ.update(HOME=str(home / "mine"), XDG_CACHE_HOME=str(home / "mine"))
open_trace([folder / "run.sqlite"]).arguments(0)  # loads all code, which the other user may not be allowed to read
if os.geteuid() == 0:
    os.setegid(65534), os.seteuid(65534)
os.environ.update(HOME=str(home / "other"), XDG_CACHE_HOME=str(home / "other"))
try:
    (folder / "x").touch()
except PermissionError:
    pass
else:
    sys.exit("the folder can be written")
trace = open_trace([folder / "run.sqlite"])
work = trace.gpu_operations
assert len(work) == 84
assert trace.arguments(int(work[0])) != {}
print({trace.lanes[lane].stream for lane in trace.events.lane[work].tolist()})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
@pytest.mark.parametrize(
    "state",
    [*(pytest.param(each, marks=pytest.mark.thorough) for each in ("plain", "wal mode")), "pending wal"],
)
def test_exports_in_a_folder_that_only_its_owner_may_write(
    foreign: Path, repository: Path, state: str
) -> None:
    theirs, home = foreign / "theirs", foreign / "home"
    theirs.mkdir()
    home.mkdir()
    exported(theirs)
    if state != "plain":
        connection = sqlite3.connect(theirs / "run.sqlite")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
    if state == "pending wal":
        connection = sqlite3.connect(theirs / "run.sqlite")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 8")
        connection.commit()
        kept = {name: (theirs / name).read_bytes() for name in ("run.sqlite", "run.sqlite-wal")}
        connection.close()
        for name, data in kept.items():
            (theirs / name).write_bytes(data)
    before = {file.name: file.read_bytes() for file in theirs.iterdir()}
    assert ("run.sqlite-wal" in before) == (state == "pending wal")
    foreign.chmod(0o755)
    home.chmod(0o777)
    for file in theirs.iterdir():
        file.chmod(0o444)
    theirs.chmod(0o555)
    command = [sys.executable, "-c", AS_ANOTHER_USER, str(home), str(theirs)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=repository)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == ("{8, 7}" if state == "pending wal" else "{7}")
    assert {file.name: file.read_bytes() for file in theirs.iterdir()} == before


@pytest.mark.parametrize("kernels_run", [0, 1])
def test_launches_that_returned_an_error_are_told_with_what_to_do_and_not_as_missing_records(
    tmp_path: Path, kernels_run: int
) -> None:
    launches = [call(1000 * number, 1000 * number + 500, number, returnValue=222) for number in range(2, 22)]
    launches += [call(30_000, 30_500, 30, returnValue=701)]
    launches += [call(31_000, 31_500, 31)] * kernels_run
    trace = open_trace(
        [
            export(
                tmp_path / "run.sqlite",
                {
                    "CUPTI_ACTIVITY_KIND_RUNTIME": launches,
                    "CUPTI_ACTIVITY_KIND_MEMCPY": [copy(500, 900, 100), copy(60_000, 70_000, 101)],
                    "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(31_600, 32_000, 31)] * kernels_run,
                },
            )
        ]
    )
    assert {note.reason: note.count for note in trace.quality.notes} == {
        "A launch failed with error 222 (unsupported PTX version), so it ran nothing.": 20,
        "A launch failed with error 701 (too many resources requested), so it ran nothing.": 1,
    }
    finding = diagnose(trace).findings[0]
    assert (finding.title == "Every kernel launch failed: error 222 (unsupported PTX version)") is (
        kernels_run == 0
    )
    assert "records are missing" not in finding.title
    if not kernels_run:
        assert "All 21 launches failed: 20 with error 222 (unsupported PTX version)" in finding.explanation
        assert "update the driver" in finding.advice[0]
        assert "__launch_bounds__" in finding.advice[1]


@pytest.mark.parametrize(("error", "failed"), [(0, False), (999, True)])
def test_without_any_gpu_work_the_first_sentence_says_whether_launches_failed(
    tmp_path: Path, error: int, failed: bool
) -> None:
    rows = [call(1000 * number, 1000 * number + 500, number, returnValue=error) for number in range(1, 4)]
    analysis = Analysis(open_trace([export(tmp_path / "run.sqlite", {"CUPTI_ACTIVITY_KIND_RUNTIME": rows})]))
    said = verdict(analysis, diagnosis_of(analysis))
    assert said == (
        "Every kernel launch failed: error 999"
        if failed
        else "The GPU's records are missing: 3 launches and no kernel"
    )
