"""The key below the budget bars: what the parts are that are too narrow for a name."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot

import resources
from rules.memory.kinds import Kind
from viewer.panels.charts.budget_bar import LEAST, BarKey, BudgetBar, Part
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready

WHOLE = 100_000


def shown(qtbot: QtBot, width: int, *bars: tuple[float, float, float]) -> tuple[BarKey, list[BudgetBar]]:
    """A key of bars of compute, launching and waiting, by their shares, so many pixels wide."""
    keys = (
        ("compute", "compute"),
        ("launch-bound", "launching small kernels"),
        ("host-bound", "waiting for Python"),
    )
    made = []
    key = BarKey()
    qtbot.addWidget(key)
    key.resize(width, key.sizeHint().height())
    for device, shares in enumerate(bars):
        parts = [Part(*each, round(share * WHOLE)) for each, share in zip(keys, shares, strict=True)]
        bar = BudgetBar(device, parts, WHOLE, thin=len(bars) > 1)
        qtbot.addWidget(bar)
        made.append(bar)
    key.show_bars(made)
    with qtbot.waitSignals([bar.laid_out for bar in made]):
        for bar in made:
            bar.resize(width, bar.sizeHint().height())
            bar.show()
    QCoreApplication.sendPostedEvents(key)
    return key, made


def named(key: BarKey) -> list[str]:
    return [text for _, text in key.entries()]


def test_a_part_is_named_in_its_bar_or_in_the_key(qtbot: QtBot) -> None:
    key, (bar,) = shown(qtbot, 900, (0.93, 0.05, 0.02))
    assert named(key) == ["launching small kernels 5.0 %", "waiting for Python 2.0 %"]
    for width in (900, 2000, 4000):
        bar.resize(width, bar.height())
        for button in bar.buttons:
            assert bool(button.name) is (button.part.key not in {part.key for part, _ in key.entries()})
    assert named(key) == []


@pytest.mark.parametrize(("share", "told"), [(0.01, ["waiting for Python 1.0 %"]), (0.009, [])])
def test_what_can_hardly_be_seen_is_not_named(share: float, told: list[str], qtbot: QtBot) -> None:
    key, _ = shown(qtbot, 900, (1.0 - share, 0.0, share))
    assert named(key) == told
    assert key.isVisibleTo(None) is bool(told)


@pytest.mark.parametrize(("width", "is_there"), [(930, True), (1900, False)])
def test_there_is_a_key_where_a_part_is_too_narrow_at_this_width(
    width: int, is_there: bool, qtbot: QtBot
) -> None:
    key, (bar,) = shown(qtbot, width, (0.06, 0.94, 0.0))
    assert key.isVisibleTo(None) is is_there
    bar.resize(930 + 1900 - width, bar.height())
    qtbot.waitUntil(lambda: key.isVisibleTo(None) is not is_there)


def test_of_several_bars_a_part_is_told_once_and_without_a_share(qtbot: QtBot) -> None:
    key, _ = shown(qtbot, 900, (0.95, 0.03, 0.02), (0.93, 0.02, 0.05))
    assert named(key) == ["waiting for Python", "launching small kernels"]


def test_memory_is_told_in_bytes_in_the_bar_and_in_the_key(qtbot: QtBot) -> None:
    parts = [
        Part(kind.name, kind.value, amount, memory=kind)
        for kind, amount in ((Kind.ACTIVATIONS, 3_000_000_000), (Kind.PARAMETERS, 60_000_000))
    ]
    bar, key = BudgetBar(0, parts, 3_060_000_000), BarKey()
    for each in (bar, key):
        qtbot.addWidget(each)
    key.show_bars([bar])
    with qtbot.waitSignal(bar.laid_out):
        bar.resize(900, bar.sizeHint().height())
        bar.show()
    assert bar.buttons[0].name == "activations 3.00 GB"
    assert named(key) == ["parameters 60.0 MB"]


def test_what_does_not_fit_is_left_out_whole(qtbot: QtBot) -> None:
    key, _ = shown(qtbot, 900, (0.93, 0.05, 0.02))
    whole = key.shown()
    assert len(whole) == 2
    key.resize(whole[1][2] + 40, key.height())
    assert key.shown() == whole[:1]


def test_the_key_stands_below_the_bars_of_the_window(empty_window: MainWindow, qtbot: QtBot) -> None:
    window = empty_window
    window.open([resources.path("samples/straggler_four_ranks")])
    wait_until_ready(qtbot, window)
    key, bars = window.verdict.key, window.verdict.bars
    assert key.isVisible()
    assert (
        key.mapTo(window, key.rect().topLeft()).y()
        >= bars[-1].mapTo(window, bars[-1].rect().bottomLeft()).y()
    )
    for bar in bars:
        for button in bar.buttons:
            assert button.name or button.share < LEAST or button.part.label in named(key)
    assert key.shown()[0][2] == bars[0].mapTo(window, bars[0].rect().topLeft()).x() - key.x()
