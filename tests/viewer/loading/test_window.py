"""A window on a large recording: first lanes early, then all of it; and whatever goes wrong, nothing is lost."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from parsers.model import Trace, TraceError
from rules.terms import MIN_SHARE, Thresholds
from tests.limits import room_in_a_file
from viewer.documents.document import Stage
from viewer.loading.process import LoadingProcess
from viewer.window.main_window import MainWindow

from ..conftest import training_run, wait_until_ready
from .conftest import STUCK, is_alive

Shown = list[tuple[bool, int]]


@pytest.fixture
def window(make_window: Callable[..., MainWindow], qtbot: QtBot) -> MainWindow:
    """On a small recording, analysed."""
    shown = make_window()
    shown.document.show(training_run(), (Path("earlier.json"),))
    wait_until_ready(qtbot, shown)
    return shown


def follow(window: MainWindow) -> Shown:
    """What the document shows from now on: (is it a preview, how many events)."""
    shown: Shown = []

    def note(trace: Trace | None) -> None:
        shown.append((window.document.preview, 0 if trace is None else len(trace.events)))

    window.document.trace_changed.connect(note)
    return shown


def wait_for_preview(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: window.document.preview)


def test_the_first_events_are_shown_then_all_of_them_and_the_first_problem(
    window: MainWindow, qtbot: QtBot, recording: Path
) -> None:
    shown = follow(window)
    window.open([recording])
    wait_until_ready(qtbot, window)
    (first, few), (then, all_of_them) = shown
    assert (first, then) == (True, False)
    assert 3_000 <= few < all_of_them
    assert window.toolbar.compare.isEnabled()
    assert window.document.diagnosis is not None
    assert window.document.analysis is not None
    assert window.document.analysis.trace is window.document.trace
    assert window.timeline.state.scene is not None
    assert window.timeline.state.scene.trace is window.document.trace
    assert "Kernels" in window.panels.titles()
    assert not window.banner.isVisible()
    start, end = window.timeline.visible_interval
    assert end - start < window.document.analysis.trace.duration // 2


def test_while_the_first_events_are_shown_nothing_is_concluded_from_them(
    window: MainWindow, qtbot: QtBot, recording: Path, before_it_reads: Callable[[str], None]
) -> None:
    before_it_reads(STUCK)
    window.open([recording])
    wait_for_preview(window, qtbot)
    trace = window.document.trace
    assert trace is not None
    assert window.timeline.state.scene is not None
    assert window.timeline.state.scene.trace is trace
    assert f"{len(trace.events):,}" in window.verdict.sentence.text()
    assert "diagnosis follows" in window.verdict.where.text()
    assert "more to come" in window.status.badge.text()
    assert not window.verdict.bars
    assert window.panels.titles() == ["Selection"]
    assert not window.diagnosis.cards
    assert not window.toolbar.compare.isEnabled()
    assert not window.commands["compare"].isEnabled()
    assert window.document.stage is Stage.LOADING
    qtbot.waitUntil(window.status.cancel.isVisible)


def test_cancelling_then_goes_back_to_what_was_open(
    window: MainWindow,
    qtbot: QtBot,
    recording: Path,
    before_it_reads: Callable[[str], None],
    started: list[LoadingProcess],
) -> None:
    before_it_reads(STUCK)
    trace, diagnosis = window.document.trace, window.document.diagnosis
    findings = len(window.diagnosis.cards)
    window.open([recording])
    wait_for_preview(window, qtbot)
    qtbot.waitUntil(window.status.cancel.isVisible)
    qtbot.mouseClick(window.status.cancel, Qt.MouseButton.LeftButton)
    wait_until_ready(qtbot, window)
    assert window.document.trace is trace
    assert window.document.diagnosis is diagnosis
    assert window.document.paths == (Path("earlier.json"),)
    assert window.document.stage is Stage.READY
    assert window.timeline.state.scene is not None
    assert window.timeline.state.scene.trace is trace
    assert len(window.diagnosis.cards) == findings
    assert window.verdict.bars
    assert not window.banner.isVisible()
    assert not is_alive(started[0].number)


@pytest.mark.thorough
def test_cancelling_with_nothing_open_before_goes_back_to_the_start_page(
    make_window: Callable[..., MainWindow],
    qtbot: QtBot,
    recording: Path,
    before_it_reads: Callable[[str], None],
) -> None:
    before_it_reads(STUCK)
    window = make_window()
    window.open([recording])
    wait_for_preview(window, qtbot)
    window.document.cancel()
    wait_until_ready(qtbot, window)
    assert window.document.stage is Stage.EMPTY
    assert window.pages.currentWidget() is window.start_page


def test_a_killed_loading_process_is_told_and_what_was_open_is_still_there(
    window: MainWindow,
    qtbot: QtBot,
    recording: Path,
    before_it_reads: Callable[[str], None],
    started: list[LoadingProcess],
) -> None:
    before_it_reads(STUCK)
    trace = window.document.trace
    window.open([recording])
    wait_for_preview(window, qtbot)
    os.kill(started[0].number, signal.SIGKILL)
    wait_until_ready(qtbot, window)
    assert window.banner.isVisible()
    assert recording.name in window.banner.problem.text()
    assert "was killed" in window.banner.problem.text()
    assert "shorter recording" in window.banner.hint.text()
    assert window.document.trace is trace
    assert window.document.diagnosis is not None


def test_an_analysis_whose_process_was_ended_is_told_and_is_no_mistake_of_the_program(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object) -> None:
        raise TraceError("run.json", "The process that read it was killed (signal 15).")

    monkeypatch.setattr("viewer.documents.document.analysis_of", ended)
    window.document.show(training_run(), (Path("run.json"),))
    wait_until_ready(qtbot, window)
    assert window.banner.problem.text() == "The analysis failed; the timeline is complete."
    assert "was killed" in window.banner.hint.text()
    assert window.document.trace is not None


@pytest.mark.thorough
def test_a_newer_file_replaces_one_that_is_being_read(
    window: MainWindow,
    qtbot: QtBot,
    recording: Path,
    fixtures: Path,
    before_it_reads: Callable[[str], None],
    started: list[LoadingProcess],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before_it_reads(STUCK)
    window.open([recording])
    wait_for_preview(window, qtbot)
    monkeypatch.setattr("viewer.loading.apart.MIN_BYTES_IN_WINDOW", 1 << 40)
    other = fixtures / "torch/elementwise_chain.pt.trace.json.gz"
    window.open([other])
    wait_until_ready(qtbot, window)
    assert window.document.paths == (other,)
    assert not window.document.preview
    qtbot.waitUntil(lambda: not is_alive(started[0].number))


@pytest.mark.thorough
def test_a_view_that_was_gone_to_meanwhile_stays(
    window: MainWindow, qtbot: QtBot, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def go(_: Trace) -> None:
        if window.document.preview:
            window.timeline.show_interval(1_000_000, 3_000_000, animate=False)
            names.append(visible_event(window))

    window.document.trace_changed.connect(go)
    window.open([recording])
    wait_until_ready(qtbot, window)
    start, end = window.timeline.visible_interval
    assert end - start == pytest.approx(2_000_000, abs=2)
    assert [visible_event(window)] == names


def visible_event(window: MainWindow) -> str:
    """The operator that begins first in the view, by name and arguments."""
    trace = window.document.trace
    assert trace is not None
    lane = next(index for index, each in enumerate(trace.lanes) if each.name == "Main thread")
    events = trace.events.window(lane, 0, *window.timeline.visible_interval)
    return f"{trace.name(events.start)} {trace.arguments(events.start)}"


def test_a_full_disk_is_no_reason_to_fail(
    window: MainWindow, qtbot: QtBot, recording: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with room_in_a_file(100_000), caplog.at_level(logging.WARNING):
        window.open([recording])
        wait_until_ready(qtbot, window)
    assert "in the window's own process" in caplog.text
    assert window.document.trace is not None
    assert len(window.document.trace.events) > 10_000
    assert window.document.diagnosis is not None
    assert not window.banner.isVisible()


@pytest.mark.thorough
def test_a_preview_that_fails_is_left_out(
    window: MainWindow, qtbot: QtBot, recording: Path, before_it_reads: Callable[[str], None]
) -> None:
    before_it_reads("import parsers.preview\ndef broken(*_, **__):\n    raise ZeroDivisionError\n")
    before_it_reads("parsers.preview.open_preview = broken\n")
    shown = follow(window)
    window.open([recording])
    wait_until_ready(qtbot, window)
    assert [preview for preview, _ in shown] == [False]
    assert window.document.diagnosis is not None


@pytest.mark.thorough
def test_a_process_that_cannot_be_started_is_no_reason_to_fail(
    window: MainWindow, qtbot: QtBot, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsers.helper_process._command", lambda _: ["/nowhere/python"])
    shown = follow(window)
    window.open([recording])
    wait_until_ready(qtbot, window)
    assert [preview for preview, _ in shown] == [False]
    assert window.document.diagnosis is not None


def test_closing_the_window_ends_the_process(
    window: MainWindow,
    qtbot: QtBot,
    recording: Path,
    before_it_reads: Callable[[str], None],
    started: list[LoadingProcess],
) -> None:
    before_it_reads(STUCK)
    window.open([recording])
    wait_for_preview(window, qtbot)
    window.close()
    assert not is_alive(started[0].number)


@pytest.mark.thorough
def test_arguments_are_still_fetched_from_the_file(window: MainWindow, qtbot: QtBot, recording: Path) -> None:
    window.open([recording])
    wait_until_ready(qtbot, window)
    trace = window.document.trace
    assert trace is not None
    kernel = int(trace.gpu_operations[0])
    assert "correlation" in trace.arguments(kernel)


def test_other_thresholds_are_tried_out_by_a_process_of_its_own_and_nothing_is_read_again(
    window: MainWindow,
    qtbot: QtBot,
    recording: Path,
    before_it_reads: Callable[[str], None],
    started: list[LoadingProcess],
) -> None:
    window.open([recording])
    wait_until_ready(qtbot, window)
    trace = window.document.trace
    before_it_reads(
        "import parsers\ndef never(*_, **__):\n    raise ZeroDivisionError\nparsers.open_trace = never\n"
    )
    for chosen in (Thresholds({MIN_SHARE.key: 0.5}), Thresholds()):
        window.document.use_thresholds(chosen)
        wait_until_ready(qtbot, window)
        assert window.document.diagnosis is not None
        assert window.document.diagnosis.thresholds == chosen
        assert window.document.trace is trace
    assert [each.handed is not None for each in started] == [True, True, True]
    assert not any(is_alive(each.number) for each in started)


@pytest.mark.thorough
def test_columns_that_were_removed_meanwhile_are_analysed_in_the_window(
    window: MainWindow,
    qtbot: QtBot,
    recording: Path,
    started: list[LoadingProcess],
    caplog: pytest.LogCaptureFixture,
) -> None:
    window.open([recording])
    wait_until_ready(qtbot, window)
    assert started[0].handed is not None
    Path(started[0].handed.file).unlink()
    chosen = Thresholds({MIN_SHARE.key: 0.5})
    with caplog.at_level(logging.WARNING):
        window.document.use_thresholds(chosen)
        wait_until_ready(qtbot, window)
    assert "in the window's own process" in caplog.text
    assert window.document.diagnosis is not None
    assert window.document.diagnosis.thresholds == chosen
