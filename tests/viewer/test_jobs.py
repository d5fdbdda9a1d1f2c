"""Background jobs: the newest question wins, results come on the GUI thread, cancelling ends the work."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from parsers.collecting import let_garbage_go
from parsers.model import Cancelled, Progress, Trace
from viewer.desktop.jobs import Jobs, _Post, end_all
from viewer.window.main_window import MainWindow


@pytest.fixture
def jobs(qapp: object) -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.close()


def test_work_runs_elsewhere_and_the_answer_comes_on_the_gui_thread(jobs: Jobs, qtbot: QtBot) -> None:
    seen: list[tuple[int, int]] = []
    jobs.ask(
        "a", lambda _: threading.get_ident(), lambda worker: seen.append((worker, threading.get_ident()))
    )
    qtbot.waitUntil(lambda: len(seen) == 1)
    worker, answerer = seen[0]
    assert answerer == threading.get_ident() != worker
    assert not jobs.busy


def test_a_newer_question_in_a_slot_drops_the_answer_of_the_older_one(jobs: Jobs, qtbot: QtBot) -> None:
    first_may_end, first_ended = threading.Event(), threading.Event()
    answers: list[str] = []

    def first(_: Progress) -> str:
        first_may_end.wait()
        first_ended.set()
        return "old"

    jobs.ask("a", first, answers.append)
    jobs.ask("a", lambda _: "new", answers.append)
    qtbot.waitUntil(lambda: answers == ["new"])
    first_may_end.set()
    first_ended.wait()
    jobs.close()
    qtbot.wait(20)
    assert answers == ["new"]


def test_slots_do_not_disturb_each_other(jobs: Jobs, qtbot: QtBot) -> None:
    answers: set[str] = set()
    jobs.ask("a", lambda _: "a", answers.add)
    jobs.ask("b", lambda _: "b", answers.add)
    qtbot.waitUntil(lambda: answers == {"a", "b"})


def test_jobs_in_turn_run_one_at_a_time_and_others_do_not_wait(jobs: Jobs, qtbot: QtBot) -> None:
    running: list[str] = []
    together: list[int] = []
    others_ended = threading.Event()
    answers: set[str] = set()

    def work(name: str) -> str:
        running.append(name)
        together.append(len(running))
        others_ended.wait()
        running.remove(name)
        return name

    for name in ("a", "b", "c"):
        jobs.ask(name, lambda _, name=name: work(name), answers.add, in_turn=True)  # type: ignore[misc]
    jobs.ask("d", lambda _: "d", answers.add)
    qtbot.waitUntil(lambda: answers == {"d"})
    others_ended.set()
    qtbot.waitUntil(lambda: answers == {"a", "b", "c", "d"})
    assert together == [1, 1, 1]


def test_a_job_that_waits_for_its_turn_can_be_cancelled(jobs: Jobs, qtbot: QtBot) -> None:
    may_end, ran, stopped = threading.Event(), [], []
    jobs.ask("a", lambda _: may_end.wait(), lambda _: None, in_turn=True)
    jobs.ask(
        "b", lambda _: ran.append(True), lambda _: None, stopped=lambda: stopped.append(True), in_turn=True
    )
    jobs.cancel("b")
    may_end.set()
    qtbot.waitUntil(lambda: stopped == [True])
    assert ran == []


def test_cancelling_ends_the_work_at_its_next_step_and_tells_the_asker(jobs: Jobs, qtbot: QtBot) -> None:
    ended: list[str] = []

    def endless(progress: Progress) -> None:
        try:
            while True:
                progress.step(0.5, "working")
        except Cancelled:
            ended.append("work")
            raise

    jobs.ask("a", endless, lambda _: ended.append("answer"), stopped=lambda: ended.append("asker"))
    jobs.cancel("a")
    qtbot.waitUntil(lambda: "asker" in ended)
    assert ended == ["work", "asker"]


def test_a_failure_goes_to_the_asker(jobs: Jobs, qtbot: QtBot) -> None:
    failures: list[Exception] = []

    def broken(_: Progress) -> None:
        raise ValueError("broken")

    jobs.ask("a", broken, lambda _: None, failed=failures.append)
    qtbot.waitUntil(lambda: bool(failures))
    assert str(failures[0]) == "broken"


def test_a_failure_that_nobody_takes_is_not_swallowed(jobs: Jobs, qtbot: QtBot) -> None:
    def broken(_: Progress) -> None:
        raise ValueError("nobody takes this")

    with qtbot.captureExceptions() as caught:
        jobs.ask("a", broken, lambda _: None)
        qtbot.waitUntil(lambda: bool(caught))
    assert "nobody takes this" in str(caught[0][1])


def test_progress_is_reported_with_the_slot_and_what_is_done(jobs: Jobs, qtbot: QtBot) -> None:
    with qtbot.waitSignal(jobs.progressed) as reported:
        jobs.ask("a", lambda progress: progress.step(0.25, "reading"), lambda _: None)
    assert reported.args == ["a", 0.25, "reading"]


def test_what_a_thread_reports_after_its_window_was_deleted_reaches_nobody(qtbot: QtBot) -> None:
    window = QObject()
    jobs = Jobs(window)
    may_end, answers = threading.Event(), []

    def work(progress: Progress) -> None:
        may_end.wait()
        progress.step(0.5, "working")

    jobs.ask("a", work, answers.append)
    (thread,) = jobs._threads
    delete(window)
    may_end.set()
    thread.join()
    qtbot.wait(1)
    assert not answers


def test_a_thread_that_ends_after_qt_was_taken_down_raises_nothing(
    qapp: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    jobs, may_end = Jobs(), threading.Event()
    jobs._post = _Post()
    jobs.ask("a", lambda _: may_end.wait(), lambda _: None)
    (thread,) = jobs._threads
    delete(jobs._post)
    may_end.set()
    thread.join()
    let_garbage_go()  # which nobody was left to do
    assert not raised


def test_closing_ends_every_thread(jobs: Jobs) -> None:
    def endless(progress: Progress) -> None:
        while True:
            progress.step(0.5, "working")

    before = threading.active_count()
    jobs.ask("a", endless, lambda _: None)
    jobs.ask("b", endless, lambda _: None)
    jobs.close()
    assert threading.active_count() == before


def test_before_the_program_ends_the_threads_of_all_windows_do(jobs: Jobs) -> None:
    ended: list[str] = []

    def endless(progress: Progress) -> None:
        try:
            while True:
                progress.step(0.5, "working")
        finally:
            ended.append("work")

    other, before = Jobs(), threading.active_count()
    jobs.ask("a", endless, ended.append)
    other.ask("a", endless, ended.append)
    end_all()
    assert (threading.active_count(), ended) == (before, ["work", "work"])


IS_LEFT_WHILE_IT_WORKS = """
import sys
import threading
from PySide6.QtWidgets import QApplication
from viewer import app
from viewer.desktop.jobs import Jobs

def endless(progress):
    while True:
        progress.step(0.5, "working")

def exec(_):
    jobs.ask("a", endless, print)
    return 3

application = app.application()
jobs = Jobs(application)
QApplication.exec = exec
code = app.run([], separate=True)
sys.exit(code if not [each for each in threading.enumerate() if each.name == "job a"] else 1)
"""


def test_the_window_is_left_after_its_work_has_ended(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IS_LEFT_WHILE_IT_WORKS],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr


def test_once_closed_nothing_is_run(jobs: Jobs) -> None:
    begun: list[str] = []
    jobs.started.connect(begun.append)
    jobs.close()
    jobs.ask("a", lambda _: begun.append("work"), lambda _: None)
    assert begun == []
    assert not jobs.busy


def test_a_window_that_was_closed_starts_no_job(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    window = make_window()
    begun: list[str] = []

    def close() -> None:
        window.close()
        window.jobs.started.connect(begun.append)

    window.document.analysis_changed.connect(close)
    with qtbot.waitSignal(window.document.diagnosis_changed):  # for which a timer was set before
        window.document.show(trace)
    assert begun == []
    assert not window.jobs.busy
