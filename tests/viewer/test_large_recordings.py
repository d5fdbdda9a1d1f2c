"""The window on recordings of sizes that nobody expects: every tab opens and the timeline is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from tests.parsers.chrome.traces import Event, complete, kernel, text_of
from tests.parsers.test_sizes import training
from viewer.documents.document import Stage
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready


def many_lanes(count: int) -> list[Event]:
    threads = [complete("op", number % 2000, 5, tid=1000 + number) for number in range(count)]
    return [*threads, *(kernel("k", number % 2000, 5, stream=1000 + number) for number in range(count))]


def many_levels(count: int) -> list[Event]:
    return [
        complete(f"f{number}", number * 0.01, 2900 - 0.02 * number, category, tid=2)
        for number in range(count)
        for category in ("cpu_op", "python_function", "user_annotation")
    ]


def long_names(count: int) -> list[Event]:
    return training("n" * count)


More = Callable[[int], list[Event]]
MORE: dict[More, tuple[int, int]] = {  # the first is tried every day, all others thoroughly
    many_lanes: (300, 10_000),
    many_levels: (500, 3_000),
    long_names: (50_000, 1_000_000),
}
SIZES = [
    pytest.param(
        more,
        count,
        id=f"{more.__name__}-{count}",
        marks=() if more is many_lanes and not place else pytest.mark.thorough,
    )
    for more, counts in MORE.items()
    for place, count in enumerate(counts)
]


def opened(window: MainWindow, qtbot: QtBot, path: Path) -> None:
    said: list[tuple[str, str]] = []
    window.document.failed.connect(lambda *problem: said.append(problem))
    window.open([path])
    qtbot.waitUntil(lambda: window.document.stage is Stage.READY and not window.jobs.busy)
    assert said == []


@pytest.mark.parametrize(("make", "count"), SIZES)
def test_every_view_of_a_recording_without_measure_works(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path, make: More, count: int
) -> None:
    path = tmp_path / "large.json"
    more = make(count)
    path.write_text(text_of(training() + more))
    window = empty_window
    opened(window, qtbot, path)
    trace = window.document.trace
    assert trace is not None
    assert len(trace.events) == len(training() + more)
    for title in window.panels.titles():
        window.panels.show_panel(title)
        wait_until_ready(qtbot, window)
    for event in (int(trace.events.depth.argmax()), int(trace.events.name.argmax()), len(trace.events) - 1):
        window.document.select_event(event)
        wait_until_ready(qtbot, window)
    for interval in ((0, trace.duration), (trace.duration // 2, trace.duration // 2 + 1000)):
        window.timeline.show_interval(*interval, animate=False)
        assert not window.grab().isNull()
    assert max(map(len, (window.verdict.sentence.text(), window.verdict.where.text()))) < 1000
