"""Files that are dragged over a recording."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent
from pytestqt.qtbot import QtBot

from parsers.model import Rank
from viewer.window.drop_targets import Target, likely
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready


def drag_over(window: MainWindow, *names: str) -> Callable[[QPointF], None]:
    """Drag files over the window; what is returned lets them go somewhere."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(Path("/data") / name)) for name in names])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dragEnterEvent(QDragEnterEvent(QPoint(9, 9), Qt.DropAction.CopyAction, data, buttons, keys))

    def let_go(at: QPointF) -> None:
        window.dragMoveEvent(QDragMoveEvent(at.toPoint(), Qt.DropAction.CopyAction, data, buttons, keys))
        window.dropEvent(QDropEvent(at, Qt.DropAction.CopyAction, data, buttons, keys))

    return let_go


def test_a_file_over_a_recording_can_be_opened_beside_it_added_or_compared(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, list[Path]]] = []
    window.open_beside_wanted.connect(lambda paths: done.append(("open", list(paths))))
    monkeypatch.setattr(window, "open", lambda paths: done.append(("join", list(paths))))
    monkeypatch.setattr(window.acts, "compare_with", lambda paths: None)
    window.drops.compare_wanted.connect(lambda paths: done.append(("compare", list(paths))))
    other = Path("/data/other.json")
    for target, what in ((Target.OPEN, "open"), (Target.JOIN, "join"), (Target.COMPARE, "compare")):
        let_go = drag_over(window, other.name)
        assert window.drops.isVisible()
        box = dict(window.drops._boxes())[target]
        let_go(box.center())
        assert not window.drops.isVisible()
        assert done[-1][0] == what
        assert done[-1][1][-1] == other
    assert done[1][1][:-1] == list(window.document.paths)


def test_a_rank_is_offered_to_a_run_that_lacks_one_and_a_log_is_added_whatever_it_is_called(
    window: MainWindow, qtbot: QtBot, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "rank1.json"
    shutil.copyfile(fixtures / "smi" / "dmon.txt", log)
    opened: list[Path] = []
    monkeypatch.setattr(window, "open", opened.extend)
    let_go = drag_over(window, str(log))
    assert window.drops.targets == (Target.OPEN, Target.ADD)
    let_go(QPointF(1, 1))  # beside every target: what is lit
    assert opened == [*window.document.paths, log]
    assert window.document.trace is not None
    finished = replace(window.document.trace, ranks=(Rank(rank=0, world_size=1),))
    window.document.show(finished)
    wait_until_ready(qtbot, window)
    drag_over(window, "rank1.json")
    assert window.drops.targets == (Target.OPEN, Target.COMPARE)


@pytest.mark.parametrize(
    ("opened", "dragged", "wanted"),
    [
        ("rank0.json", "rank1.json", Target.JOIN),
        ("rank0.json", "rank0.json", Target.COMPARE),
        ("before.json", "server.sqlite", Target.COMPARE),
    ],
)
def test_the_likely_target_follows_from_the_names(opened: str, dragged: str, wanted: Target) -> None:
    assert (
        likely([Path("/a") / opened], [Path("/b") / dragged], (Target.OPEN, Target.JOIN, Target.COMPARE))
        is wanted
    )
