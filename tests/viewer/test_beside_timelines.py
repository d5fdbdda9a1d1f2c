"""Dumps of flight recorders, logs of compilers and samples of the CPU in the window: verdict, lanes, cards and tabs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from tests.examples import one_of
from tests.parsers.flight_dumps import entry, open_entry, pickled
from viewer.cli import main
from viewer.loading.ranks.asking import FULL_RANKS
from viewer.loading.ranks.opening import files_of_many
from viewer.panels.tabs.flame import FlamePanel
from viewer.panels.tabs.results import ResultsPanel
from viewer.reports.text_report import MAX_INPUTS
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

HUNG = tuple(f"flight/early_end.rank{rank}.pickle" for rank in range(3))


@pytest.mark.parametrize(
    ("names", "says", "lanes"),
    one_of(
        2,
        [
            (HUNG, "Rank 2 never reached all_reduce #10", {"Collectives called"}),
            (("flight/early_end.rank0.json",), "Rank 0 waits in all_reduce #10", {"Collectives called"}),
            (("compiler/torch_trace.log",), "step was recompiled 3 times", {"Compiling"}),
            (("stacks/feed.speedscope.json",), "44 % of the CPU's time is in parse", {"Samples"}),
            (("stacks/burn.perf.txt.gz",), "45 % of the CPU's time is in smooth (burn)", {"Samples"}),
        ],
    ),
)
def test_each_opens_with_its_verdict_and_its_lanes(
    make_window: Callable[..., MainWindow],
    qtbot: QtBot,
    fixtures: Path,
    names: tuple[str, ...],
    says: str,
    lanes: set[str],
) -> None:
    window = make_window((1200, 760))
    window.open([fixtures / name for name in names])
    wait_until_ready(qtbot, window)
    assert window.verdict.sentence.text().startswith(says)
    shown = {placed.track.title for placed in window.timeline.state.layout.scrolled} & lanes
    assert shown == lanes


def test_show_on_the_card_flies_to_the_collective_that_did_not_end(
    make_window: Callable[..., MainWindow], qtbot: QtBot, fixtures: Path
) -> None:
    window = make_window((1200, 760))
    window.open([fixtures / name for name in HUNG])
    wait_until_ready(qtbot, window)
    shows = [each for each in window.findChildren(QPushButton) if each.isVisible() and each.text() == "Show"]
    QTest.mouseClick(shows[0], Qt.MouseButton.LeftButton)
    trace = window.document.trace
    assert trace is not None
    assert trace.name(window.document.selected_event) == "all_reduce (unfinished)"


def test_samples_are_a_flame_graph(
    make_window: Callable[..., MainWindow], qtbot: QtBot, fixtures: Path
) -> None:
    window = make_window((1200, 760))
    window.open([fixtures / "stacks" / "feed.speedscope.json"])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Flame")
    flame = window.panels.findChild(FlamePanel)
    assert flame.kind.currentText() == "Samples"
    qtbot.waitUntil(lambda: flame.view.tree is not None and len(flame.view.tree) > 0)
    assert flame.view.tree is not None
    assert flame.view.tree.whole == pytest.approx(5.74e9, rel=0.01)


def test_compilations_and_breaks_are_tables_of_results(
    make_window: Callable[..., MainWindow], qtbot: QtBot, fixtures: Path
) -> None:
    window = make_window((1200, 760))
    window.open([fixtures / "compiler" / "torch_trace.log"])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Results")
    assert window.panels.findChild(ResultsPanel) is not None
    assert window.document.trace is not None
    assert [each.title for each in window.document.trace.tables] == ["Compilations", "Graph breaks"]


@pytest.mark.parametrize(("count", "told"), [(MAX_INPUTS, ""), (MAX_INPUTS + 1, " and 1 more")])
def test_many_dumps_are_read_in_full_and_named_in_one_line(
    count: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MAX_INPUTS == FULL_RANKS
    for rank in range(count):
        open_calls = [open_entry(2, 5.0)] if rank != 3 else []
        stated = pickled(entry(1), *open_calls, ranks=str(list(range(count))))
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(stated)
    assert files_of_many([tmp_path]) is None
    assert main(["diagnose", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Rank 3 never reached all_reduce #2"
    assert said[2].endswith(f"nccl_trace_rank_15 (PyTorch flight recorder){told}")
