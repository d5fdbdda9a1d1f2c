"""Windows for the tests: a small made-up training run, and the real window on it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QCursor, QGuiApplication
from PySide6.QtWidgets import QApplication, QToolTip, QWidget
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model import Attribute, Device, EventKind, Lane, LaneKind, Progress, Trace, TraceInput, derived
from parsers.model.builder import TraceBuilder
from rules import Diagnosis
from rules.analysis.analysis import Analysis
from rules.terms import DEFAULTS, Thresholds
from tests import opened as recordings
from viewer.appearance import theme
from viewer.documents import document
from viewer.documents.document import Stage
from viewer.loading import analysing, recording_process
from viewer.loading.apart import is_for_another_process
from viewer.loading.loader import Opened
from viewer.panels.tabs import query
from viewer.user_data.preferences import Preferences
from viewer.window.main_window import MainWindow

MS = 1_000_000
US = 1_000
STEPS = 3
STEP = 20 * MS
KERNELS = 8
QUIET_TURNS = 4


def training_run(warm_up: int = 0) -> Trace:
    """Three steps of 20 ms: eight kernels of 1 ms launched at once, then 10 ms in `tokenize` with an idle GPU.

    The first step is longer by ``warm_up`` ns at its beginning.
    """
    builder = TraceBuilder()
    device = builder.device(Device(0, "NVIDIA H200", memory_bytes=150_000_000_000))
    main = {"process": 1, "thread": 1}
    operators = builder.lane(Lane(LaneKind.CPU_THREAD, "Main thread", **main))
    regions = builder.lane(Lane(LaneKind.REGION, "Main thread regions", **main))
    steps = builder.lane(Lane(LaneKind.STEPS, "Steps", **main))
    calls = builder.lane(Lane(LaneKind.CUDA_API, "Main thread CUDA calls", **main))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "GPU 0 stream 7", device=device, stream=7))
    for number in range(STEPS):
        begin = warm_up + number * STEP
        add = builder.add
        at, end = np.array([begin]), np.array([begin + STEP - 10 * US])
        add(
            at if number else np.array([0]),
            end,
            builder.string(f"ProfilerStep#{number}"),
            steps,
            EventKind.STEP,
        )
        add(at + 10 * MS, at + STEP - 50 * US, builder.string("tokenize"), regions, EventKind.REGION)
        launch = begin + 100 * US + np.arange(KERNELS) * 200 * US
        names = np.where(
            np.arange(KERNELS) % 2, builder.string("ampere_sgemm_128x64"), builder.string("softmax_warp")
        )
        add(launch - 50 * US, launch + 60 * US, builder.string("aten::linear"), operators, EventKind.CPU_OP)
        called = add(launch, launch + 10 * US, builder.string("cudaLaunchKernel"), calls, EventKind.API)
        start = begin + 400 * US + np.arange(KERNELS) * MS
        kernels = add(start, start + MS, names, stream, EventKind.KERNEL)
        builder.link(kernels, called)
        builder.attribute(Attribute.CORRELATION, kernels, np.arange(KERNELS) + number * KERNELS + 1)
    builder.inputs.append(TraceInput("run.json", "chrome-trace", "PyTorch 2.11"))
    builder.quality.read(STEPS * (2 + 3 * KERNELS))
    return builder.build()


@pytest.fixture(autouse=True)
def mouse_elsewhere() -> None:
    """No test finds the mouse where another one left it, or a menu or a hint of another one in its way.

    To move it there would then be no movement, or one over the menu.
    """
    if isinstance(QGuiApplication.instance(), QApplication):
        QToolTip.hideText()
        while (popup := QApplication.activePopupWidget()) is not None and popup.close():
            pass
        QCursor.setPos(0, 0)


class AnsweredHere:
    """Answers questions about a recording in this process, as the one does that the program has for it."""

    def __init__(self, analysis: Callable[[], Analysis | None]) -> None:
        self._analysis = analysis
        self._turn = threading.Lock()

    def answer(self, function: Callable[..., Iterator[bytes]], progress: Progress, **arguments: Any) -> bytes:
        return b"".join(self.pieces(function, progress, **arguments))

    def pieces(
        self, function: Callable[..., Iterator[bytes]], progress: Progress, **arguments: Any
    ) -> Iterator[bytes]:
        with self._turn:
            yield from function(self._analysis(), progress=progress, **arguments)

    def close(self) -> None:
        """There is no process to end."""


@derived
def asked_of_a_window(analysis: Analysis) -> AnsweredHere:
    return AnsweredHere(weakref.ref(analysis))


def asked_of_a_command(runs: Sequence[Sequence[Path]], *_: object) -> AnsweredHere:
    (run,) = runs
    return AnsweredHere(cache(lambda: Analysis(open_trace(run))))


@pytest.fixture
def answered_apart() -> None:
    """Has questions answered by another process, as in the program."""


@pytest.fixture(autouse=True)
def answered_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for every window whose tabs a test looks at would take longer than all the rest of the test."""
    if "answered_apart" not in request.fixturenames:
        monkeypatch.setattr(query, "asked", asked_of_a_window)
        monkeypatch.setattr(recording_process, "AskedRecording", asked_of_a_command)


_opened, _analysed = document.opened, analysing.analysed
_KEPT = (Path(__file__).resolve().parent.parent / "fixtures", resources.path("samples"))
# by the id of the recording, which stays
_once: dict[int, tuple[Analysis, Diagnosis] | None] = {}


def _stays(trace: Trace) -> Trace:
    _once.setdefault(id(trace), None)
    return trace


_run = cache(lambda: _stays(training_run()))


def opened_once(paths: Sequence[Path], progress: Progress, *others: Any) -> Opened:
    """What ``opened`` gives; a file that is kept with the tests or the program is read once in a process."""
    is_kept = len(paths) == 1 and paths[0].is_file() and any(map(paths[0].is_relative_to, _KEPT))
    if not is_kept or is_for_another_process(paths):
        return _opened(paths, progress, *others)
    return Opened(_stays(recordings.opened(*paths)))


def analysed_once(
    trace: Trace, progress: Progress, thresholds: Thresholds = DEFAULTS
) -> tuple[Analysis, Diagnosis]:
    """What ``analysed`` gives, computed once in a process for what is read once."""
    if thresholds != DEFAULTS or id(trace) not in _once:
        return _analysed(trace, progress, thresholds)
    if (known := _once[id(trace)]) is None:
        known = _once[id(trace)] = _analysed(trace, progress)
    return known


@pytest.fixture
def opened_anew() -> None:
    """Has every window read and analyse what it opens, as in the program."""


@pytest.fixture(autouse=True)
def opened_by_one(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of windows show the same few recordings, which none of them changes.

    A process that answers questions ends with the analysis of its recording: tests of it have one for each window.
    """
    if not {"opened_anew", "answered_apart"}.intersection(request.fixturenames):
        monkeypatch.setattr(document, "opened", opened_once)
        monkeypatch.setattr(analysing, "analysed", analysed_once)


@pytest.fixture
def trace() -> Trace:
    """A small training run that waits for Python."""
    return _run()


@pytest.fixture
def make_window(qtbot: QtBot, qapp: object) -> Iterator[Callable[..., MainWindow]]:
    """Makes real windows of 1200 x 800 that do not fly, and closes them."""
    theme.apply(qapp, "dark")  # type: ignore[arg-type]
    made: list[MainWindow] = []

    def make(size: tuple[int, int] | None = (1200, 800), shows: Trace | None = None) -> MainWindow:
        preferences = Preferences()
        preferences.animate = False
        window = MainWindow(preferences)
        qtbot.addWidget(window)
        if size is not None:
            window.resize(*size)
        if shows is not None:
            window.document.show(shows)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        made.append(window)
        return window

    yield make
    for window in made:
        window.close()


@pytest.fixture
def empty_window(make_window: Callable[..., MainWindow]) -> MainWindow:
    """The window on its start page."""
    return make_window()


@pytest.fixture
def window(make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot) -> MainWindow:
    """The window on the training run, analysed."""
    shown = make_window(shows=trace)
    wait_until_ready(qtbot, shown)
    return shown


def wait_until_ready(qtbot: QtBot, window: MainWindow) -> None:
    """Until nothing is being read or computed, and what that changed has its place."""
    qtbot.waitUntil(
        lambda: window.document.stage in (Stage.READY, Stage.EMPTY) and not window.jobs.busy, timeout=90_000
    )
    wait_until_laid_out(qtbot, window.timeline)


def wait_until_laid_out(qtbot: QtBot, *widgets: QWidget) -> None:
    """Until these keep their places: layouts follow one another, one in each turn of the event loop."""
    places: list[list[QRect]] = []
    while len(places) < QUIET_TURNS or any(each != places[-1] for each in places[-QUIET_TURNS:]):
        qtbot.wait(1)
        places.append([QRect(each.mapTo(each.window(), QPoint()), each.size()) for each in widgets])


def show_tab(window: MainWindow, qtbot: QtBot, title: str) -> None:
    """Bring a tab to the front and wait for its numbers and for its place."""
    window.panels.show_panel(title)
    wait_until_ready(qtbot, window)
    wait_until_laid_out(qtbot, window.timeline.canvas)
