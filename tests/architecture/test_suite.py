"""The tests judge a commit wherever they run: nothing of one is left on for what comes after it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HANG_S
from tests.limits import limits, room_in_a_file, set_back

LONG = 100_000
WAIT = re.compile(r"wait(?:Until|Signals?|Exposed|Active)\([^\n]*timeout=([\d_]+)")


def test_a_limit_that_is_left_on_is_named_and_set_back() -> None:
    resource = pytest.importorskip("resource", reason="Windows has no such limits")
    usual = limits()
    assert set_back(usual) == []
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    assert set_back(usual) == ["RLIMIT_FSIZE"]
    assert limits() == usual
    with room_in_a_file(LONG):
        assert set_back(usual) == ["RLIMIT_FSIZE"]


@pytest.mark.thorough
def test_what_is_said_of_tests_on_a_full_disk_may_go_to_a_long_file(repository: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_bytes(LONG * b"\n")
    words = ["-q", "-n", "0", "-p", "no:cacheprovider", "tests/viewer/test_lost_files.py"]
    words += ["-k", "does_not_fit_on_the_disk and diagnose"]
    with output.open("ab") as file:
        ended = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=repository, stdout=file)
    said = output.read_text().strip()
    assert (ended.returncode, said.rpartition(" passed")[1]) == (0, " passed"), said[-2000:]


def test_no_wait_for_the_window_is_shorter_than_the_usual_one(repository: Path) -> None:
    shorter = [
        f"{path.relative_to(repository)}: {wait[0]}"
        for path in sorted((repository / "tests").rglob("*.py"))
        for wait in WAIT.finditer(path.read_text("utf-8"))
        if int(wait[1]) < HANG_S * 1000
    ]
    assert shorter == []
