"""The application: one Qt event loop, any number of windows."""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QSocketNotifier, Qt, QThread, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

import resources
from viewer.appearance import theme
from viewer.appearance.tab_order import tell_roles
from viewer.desktop.ending import SIGNALLED, end_tidily_when_told, ending_at_once
from viewer.desktop.jobs import end_all
from viewer.loading.apart import keep_one_ready

if TYPE_CHECKING:
    from viewer.desktop.single_instance import Request
    from viewer.window.main_window import MainWindow

LOOK_AGAIN_MS = 10  # for the event loop, where a signal came before it
READER_AFTER_MS = 1_500  # the window comes first
GIL_SWITCH_S = 0.001  # a short turn for background work, so that painting never waits long
# Thresholds of garbage collection as the interpreter begins; the command line collects seldom while it loads.
_OFTEN = (700, 10, 10)
_windows: list[MainWindow] = []


def application() -> QApplication:
    """The one application, made and named on first use."""
    known = QApplication.instance()
    if isinstance(known, QApplication):
        return known
    QCoreApplication.setOrganizationName("stallscope")
    QCoreApplication.setApplicationName("Stallscope")
    app = QApplication([sys.argv[0] if sys.argv else "stallscope"])
    tell_roles(app)
    app.setDesktopFileName("stallscope")
    icon = resources.path("icons/stallscope.svg")
    if icon.exists():
        app.setWindowIcon(QIcon(str(icon)))
    return app


def open_window(paths: Sequence[Path] = (), at: int | None = None) -> MainWindow:
    """Open one more window, on these files or on the start page."""
    from viewer.window.main_window import MainWindow

    window = MainWindow()
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    window.closed.connect(_forget)
    _windows.append(window)
    window.new_window_wanted.connect(open_window)
    window.open_beside_wanted.connect(open_window)
    window.show()
    if len(_windows) == 1:
        gc.freeze()  # so that no collection has to look at what never goes away
        gc.set_threshold(*_OFTEN)
    if paths:
        QTimer.singleShot(0, lambda: window.open(paths, at))
    return window


def _forget(window: MainWindow) -> None:
    _windows[:] = [each for each in _windows if each is not window]


def answer(request: Request) -> MainWindow:
    """Show what a later start of the program asks for, in a window that has nothing open or in a new one."""
    from viewer.desktop.single_instance import with_tokens
    from viewer.documents.document import Stage

    known = next((each for each in _windows if request.paths and each.document.paths == request.paths), None)
    empty = next((each for each in _windows if each.document.stage is Stage.EMPTY), None)
    earlier = next((each for each in reversed(_windows) if each.document.paths), None)
    with with_tokens(request.tokens):
        window = known or empty or open_window()
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.raise_()
        window.activateWindow()
    if request.paths and window is not known:
        window.open(request.paths, request.at)
        if earlier is not None and earlier is not window:
            _offer_both(window, earlier)
    return window


def _offer_both(window: MainWindow, earlier: MainWindow) -> None:
    """Let ``window`` offer to join what it opens with the recording of another window, or to compare the two."""
    from viewer.comparison.window import compare_with
    from viewer.dialogs.second_recording import SecondRecordingOffer

    about = earlier.document.paths
    offer = SecondRecordingOffer(window.document, about[0].name)

    def is_open() -> bool:
        return earlier.isVisible() and earlier.document.paths == about

    def come_forward() -> None:
        earlier.raise_()
        earlier.activateWindow()

    def join() -> None:
        if is_open():
            earlier.open([*about, *window.document.paths])
            come_forward()
            window.close()

    def compare() -> None:
        if is_open():
            come_forward()
            compare_with(earlier.document, window.document.paths, earlier)

    offer.beside(lambda: earlier.document.trace if is_open() else None)
    offer.join_wanted.connect(join)
    offer.compare_wanted.connect(compare)
    earlier.destroyed.connect(offer.leave)
    window.show_offer(offer)


def run(paths: Sequence[Path], at: int | None = None, separate: bool = False) -> int:
    """Open the window and work until it is closed; ``at`` is a moment to show (ns from the start).

    Where the program is running already, that one opens the window and this one returns, unless ``separate``.
    """
    from viewer.desktop.single_instance import OpenedFiles, Request, SingleInstance, desktop_tokens

    instance = SingleInstance()
    request = Request(tuple(path.absolute() for path in paths), at, desktop_tokens())
    if not separate and instance.hand_over(request):  # before anything that takes long
        return 0
    with ending_at_once():
        app = application()
    with ended_by_signals(app):
        if not separate and not instance.start(request):
            return 0
        from viewer.dialogs.problem import install
        from viewer.user_data.preferences import Preferences

        sys.setswitchinterval(GIL_SWITCH_S)
        install()
        preferences = Preferences()
        theme.use_letters(int(preferences.letters) / 100)
        theme.apply(app, preferences.theme)
        open_window(paths, at)
        instance.asked.connect(answer)
        if sys.platform == "darwin":
            OpenedFiles(app).asked.connect(answer)
        app.aboutToQuit.connect(instance.close)
        QTimer.singleShot(READER_AFTER_MS, keep_one_ready)
        code = app.exec()
        end_all()
        return code


@contextlib.contextmanager
def ended_by_signals(app: QApplication) -> Iterator[None]:
    """Ctrl+C quits, and so does being told to end by the system, whatever is open; Qt sleeps until a signal comes.

    Nothing is raised, because Qt swallows what is raised in the calls that it makes.
    """
    signal.signal(signal.SIGINT, lambda *_: _within_the_loop(lambda: app.quit()))
    end_tidily_when_told(lambda number, _: _within_the_loop(lambda: app.exit(SIGNALLED + number)))
    heard, told = socket.socketpair()
    heard.setblocking(False)
    told.setblocking(False)
    notifier = QSocketNotifier(heard.fileno(), QSocketNotifier.Type.Read)
    notifier.activated.connect(lambda: heard.recv(1 << 10))  # Python's own handlers run before the next line
    before = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        notifier.setEnabled(False)
        heard.close()
        told.close()


def _within_the_loop(leave: Callable[[], None]) -> None:
    """Leave the event loop once it runs: Qt forgets an ``exit`` before that."""

    def now_or_later() -> None:
        if QThread.currentThread().loopLevel():
            leave()
        else:
            _within_the_loop(leave)

    QTimer.singleShot(LOOK_AGAIN_MS, now_or_later)


def local_path(word: str) -> Path:
    """The file that ``word`` names: a path as it stands, or the path of a URL of a file on this machine."""
    from parsers.files.fetched import is_address, local_copy

    if is_address(word):
        return local_copy(word)
    if not word.lower().startswith("file:/") or Path(word).exists():
        return Path(word)
    from urllib.parse import urlsplit
    from urllib.request import url2pathname  # loads what speaks with servers

    url = urlsplit(word)
    if url.hostname not in (None, "localhost", socket.gethostname().lower()):
        return Path(word)
    return Path(url2pathname(url.path))
