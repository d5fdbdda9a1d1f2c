"""Two ways through the window, with a mouse and a keyboard that count: the figures are those of docs/paths.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from parsers.model import EventKind
from viewer.comparison.window import ComparisonWindow
from viewer.panels.findings.card_parts import CodeBox
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready
from .every_window import sample, until
from .timeline.mouse import MS, at

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "paths.md"


class Hands:
    """A mouse and a keyboard that count."""

    def __init__(self) -> None:
        self.clicks = self.keys = 0

    def click(self, widget: QWidget, place: QPoint | None = None) -> None:
        self.clicks += 1
        place = place or widget.rect().center()
        assert widget.visibleRegion().contains(place), "nobody clicks what is scrolled away"
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=place)

    def key(self, window: QWidget, key: Qt.Key, held: Qt.KeyboardModifier) -> None:
        self.keys += 1
        QTest.keyClick(window.windowHandle(), key, held)

    def choose(self, menu: QMenu, text: str) -> None:
        action = next(each for each in menu.actions() if each.text() == text)
        self.click(menu, menu.actionGeometry(action).center())


@pytest.fixture
def hands() -> Hands:
    return Hands()


def counted(heading: str) -> tuple[int, int]:
    """What the document says: clicks and keys."""
    part = DOCUMENT.read_text("utf-8").split(f"## {heading}")[1].split("## ")[0]
    total = re.search(r"\*\*(\d+) clicks?, (\d+) keys?\.\*\*", part)
    assert total is not None
    steps = re.findall(r"^\| (\d+) (click|key)s? \|", part, re.MULTILINE)
    clicks, keys = (sum(int(n) for n, kind in steps if kind == each) for each in ("click", "key"))
    assert (clicks, keys) == (int(total[1]), int(total[2]))
    return clicks, keys


@pytest.fixture
def comparisons() -> Iterator[Callable[[], list[ComparisonWindow]]]:
    """The comparison windows that are open; closed afterwards."""

    def found() -> list[ComparisonWindow]:
        return [each for each in QApplication.topLevelWidgets() if isinstance(each, ComparisonWindow)]

    yield found
    for window in found():
        window.close()
        QCoreApplication.sendPostedEvents(window, int(QEvent.Type.DeferredDelete.value))


def test_somebody_new_finds_what_is_slow_where_it_is_and_how_it_would_look_healthy(
    make_window: Callable[..., MainWindow],
    comparisons: Callable[[], list[ComparisonWindow]],
    hands: Hands,
    qtbot: QtBot,
) -> None:
    window = make_window((1366, 768))
    tile = next(
        each for each in window.start_page.sample_tiles if "Python in the way" in each.accessibleName()
    )
    hands.click(tile)
    wait_until_ready(qtbot, window)
    said = f"{window.verdict.sentence.text()} {window.verdict.where.text()}"
    assert "waits for Python" in said
    assert "tokenize_next" in said
    worst = window.timeline.state.evidence[0]
    t0, t1 = window.timeline.visible_interval
    assert t0 <= worst.start < worst.end <= t1

    card = window.diagnosis.cards[0]
    hands.click(card.fix_button)
    until(lambda: any(box.code and box.isVisible() for box in card.findChildren(CodeBox)))

    trace = window.document.trace
    assert trace is not None
    middle = (worst.start + worst.end) / 2 / MS
    regions = next(each for each in window.timeline.state.layout.scrolled if each.track.title == "Regions")
    row = regions.rows[1]
    place = at(window.timeline, middle, "Regions")
    place.setY(window.timeline.canvas.top_of(regions) + row.top + row.height // 2)
    hands.click(window.timeline.canvas, place)
    assert trace.name(window.document.selected_event) == "tokenize_next"

    hands.click(window.toolbar.compare)
    menu = next(each for each in window.findChildren(QMenu) if each.isVisible())
    hands.choose(menu, "A healthy run")
    until(lambda: bool(comparisons()) and comparisons()[0].result is not None)
    beside = comparisons()[0]
    assert "Not comparable" in beside.head.sentence.text()  # it is another program, and that is said
    assert all(view.state.scene is not None for view in beside.twins.views)
    assert (hands.clicks, hands.keys) == counted("A newcomer")


def test_an_expert_finds_the_longest_exposed_all_reduce_of_a_rank_its_wait_its_launch_and_copies_its_numbers(
    make_window: Callable[..., MainWindow], hands: Hands, qtbot: QtBot
) -> None:
    window = make_window((1366, 768))
    window.open(sample("straggler_four_ranks"))
    wait_until_ready(qtbot, window)
    trace, analysis = window.document.trace, window.document.analysis
    assert trace is not None
    assert analysis is not None
    device = next(index for index, each in enumerate(trace.devices) if each.rank == 3)
    bar = next(each for each in window.verdict.bars if each.device == device)
    hands.click(next(each for each in bar.buttons if each.part.key == "communication"))
    wait_until_ready(qtbot, window)
    chosen = window.document.selected_event
    exposed: Counter[int] = Counter()
    for each in window.timeline.state.evidence:
        exposed[each.event] += each.end - each.start
    assert exposed.most_common(1)[0][0] == chosen
    marked = max(
        (each for each in window.timeline.state.evidence if each.event == chosen),
        key=lambda each: each.end - each.start,
    )
    t0, t1 = window.timeline.visible_interval
    assert t0 <= marked.start < marked.end <= t1

    assert window.timeline.canvas.shows(marked.lane)
    assert "AllReduce" in trace.name(chosen)
    assert trace.devices[trace.lanes[int(trace.events.lane[chosen])].device or 0].rank == 3

    hands.key(window, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    copied = QGuiApplication.clipboard().text()
    for label in ("Duration", "Exposed", "Waits", "Transfer", "Launched by", "Launch to start"):
        assert f"{label}: " in copied
    assert re.search(r"Waits: [\d.]+ \wm?s for rank \d, the last one", copied), copied

    links = window.panels.tabs.currentWidget().findChildren(QPushButton)
    hands.click(next(each for each in links if each.accessibleName().startswith("Launched by: ")))
    assert trace.events.kind[window.document.selected_event] == EventKind.API
    assert (hands.clicks, hands.keys) == counted("An expert")
