"""The dialog that lists a folder of another machine and opens what is chosen there."""

from __future__ import annotations

import shutil
from pathlib import Path

import fsspec
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.files.fetched import local_copy
from parsers.model import Progress
from rules.terms import DEFAULTS
from tests.remote.far_machine import FarMachine
from viewer.dialogs.open_address import OpenAddress, grouped
from viewer.loading.loader import opened
from viewer.remote.addresses import Entry


def rows(dialog: OpenAddress) -> list[str]:
    items = [dialog.files.topLevelItem(row) for row in range(dialog.files.topLevelItemCount())]
    return [item.text(0) for item in items if item is not None]


def test_a_folder_there_is_listed_entered_and_opened(far: FarMachine, qtbot: QtBot) -> None:
    folder = far.home / "runs" / "today"
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(4):
        shutil.copy(
            resources.path("samples") / "sync_item.pt.trace.json.gz", folder / f"train.rank{rank}.json.gz"
        )
    dialog = OpenAddress()
    qtbot.addWidget(dialog)
    dialog.show()
    wanted: list[list[Path]] = []
    dialog.open_wanted.connect(wanted.append)
    qtbot.keyClicks(dialog.address, "ssh://far/~/runs")
    qtbot.mouseClick(dialog.look, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: rows(dialog) == ["today/"])
    dialog.files.setCurrentItem(dialog.files.topLevelItem(0))
    qtbot.keyClick(dialog.files, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: rows(dialog) == ["train.rank*.json.gz  (4 ranks)"])
    dialog.files.setCurrentItem(dialog.files.topLevelItem(0))
    qtbot.mouseClick(dialog.open_button, Qt.MouseButton.LeftButton)
    names = [f"ssh://far/~/runs/today/train.rank{rank}.json.gz" for rank in range(4)]
    assert wanted == [[local_copy(name) for name in names]]
    assert not dialog.isVisible()


def test_what_a_service_holds_is_listed_opened_and_read_in_full(qtbot: QtBot) -> None:
    source = resources.path("samples") / "sync_item.pt.trace.json.gz"
    system = fsspec.filesystem("memory")
    system.pipe_file("/bucket/runs/one.json.gz", source.read_bytes())
    dialog = OpenAddress()
    qtbot.addWidget(dialog)
    dialog.show()
    try:
        qtbot.keyClicks(dialog.address, "memory://bucket/runs")
        qtbot.mouseClick(dialog.look, Qt.MouseButton.LeftButton)
        qtbot.waitUntil(lambda: rows(dialog) == ["one.json.gz"])
        dialog.files.setCurrentItem(dialog.files.topLevelItem(0))
        with qtbot.waitSignal(dialog.open_wanted) as chosen:
            qtbot.mouseClick(dialog.open_button, Qt.MouseButton.LeftButton)
        read = opened(chosen.args[0], Progress(), lambda _: None, DEFAULTS)
    finally:
        system.rm("/bucket", recursive=True)
    assert read.many is None
    assert len(read.trace.events) == len(open_trace([source]).events)


def test_what_cannot_be_listed_is_said_in_the_dialog(far: FarMachine, qtbot: QtBot) -> None:
    dialog = OpenAddress()
    qtbot.addWidget(dialog)
    dialog.address.setCurrentText("a/path")
    dialog.list_folder()
    assert "ssh://HOST/path" in dialog.said.text()
    dialog.address.setCurrentText("ssh://nobody/x")
    dialog.list_folder()
    qtbot.waitUntil(lambda: "Connection refused" in dialog.said.text())


def test_files_that_differ_by_one_number_are_ranks_of_one_run() -> None:
    names = ["a.rank0.json", "a.rank1.json", "a.rank10.json", "b1.json", "b2.json", "notes.txt"]
    found = grouped([Entry(f"ssh://h/{name}", name, 1, 0.0) for name in names])
    assert [(title, len(group)) for title, group in found] == [
        ("a.rank*.json  (3 ranks)", 3),
        ("b1.json", 1),
        ("b2.json", 1),
        ("notes.txt", 1),
    ]
