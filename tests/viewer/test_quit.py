"""Ctrl+Q ends the program with all its windows, and says nothing on the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import resources

SAMPLES = ("cpu_python.pt.trace.json.gz", "sync_item.pt.trace.json.gz")
PROGRAM = """
import sys
from pathlib import Path
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from viewer import app as program
from viewer.documents.document import Stage

first, *others = [Path(each) for each in sys.argv[2:]]
windows = []

def press():
    ready = all(each.document.stage is Stage.READY and not each.jobs.busy for each in windows)
    if sys.argv[1] == "ready" and not ready:
        QTimer.singleShot(20, press)
        return
    print(len(windows), sum(each.isVisible() for each in windows), flush=True)
    QTest.keyClick(windows[0].windowHandle(), Qt.Key.Key_Q, Qt.KeyboardModifier.ControlModifier)

def begin():
    windows.append(program.open_window([first]))
    windows.extend(program.open_window([each]) for each in others)
    windows[0].activateWindow()
    program.QApplication.instance().aboutToQuit.connect(
        lambda: print(sum(each.isVisible() for each in windows), flush=True)
    )
    QTimer.singleShot(0, press)

made = program.application

def application():
    QTimer.singleShot(0, begin)
    return made()

program.application = application
sys.exit(program.run([], separate=True))
"""


@pytest.mark.parametrize("moment", ["at once", pytest.param("ready", marks=pytest.mark.thorough)])
def test_ctrl_q_closes_all_windows_and_ends_the_program(
    moment: str, repository: Path, tmp_path: Path
) -> None:
    files = [str(resources.path(f"samples/{each}")) for each in SAMPLES]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, moment, *files],
        cwd=repository,
        env={**os.environ, "LC_ALL": "C.UTF-8", "QT_QPA_PLATFORM": "offscreen", "TMPDIR": str(temporary)},
        capture_output=True,
        check=False,
    )
    assert ended.stderr.decode() == ""
    assert ended.stdout.decode().split() == ["2", "2", "0"]
    assert ended.returncode == 0
    assert not list(temporary.iterdir())
