"""Every window and dialog of the program, opened on something that fills it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QTimer
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QScrollBar,
    QTabBar,
    QWidget,
)

import resources
from parsers import open_trace
from rules.terms import DEFAULTS
from rules.trials.blocks import Gain
from rules.trials.likeness import Likeness, LossComparison
from rules.trials.trial import Candidate, Kind, Promised, Trial, Trials
from viewer.capture.form.dialog import CaptureDialog
from viewer.capture.request import CaptureRequest, Target
from viewer.comparison.window import ComparisonWindow
from viewer.dialogs.open_address import OpenAddress
from viewer.dialogs.page_dialog import AboutDialog, QualityDialog, ShortcutSheet
from viewer.dialogs.preferences_dialog import PreferencesDialog
from viewer.dialogs.problem import ProblemDialog
from viewer.dialogs.trials.session import Subject
from viewer.dialogs.trials.window import TrialsWindow
from viewer.documents.document import Stage
from viewer.user_data.preferences import Preferences
from viewer.window.main_window import MainWindow

PROGRAMS = Path(__file__).resolve().parents[1] / "fixtures" / "programs"
WAIT_MS = 60_000
CONTROLS = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
)
Stop = Callable[[], None]


def wait(ms: int = 20) -> None:
    """Handle events for so long; unlike ``QTest.qWait``, threads run meanwhile."""
    loop = QEventLoop()
    QTimer.singleShot(ms, loop.quit)
    loop.exec()


def until(done: Callable[[], bool]) -> None:
    waited = 0
    while not done() and waited < WAIT_MS:
        wait(5)
        waited += 5
    assert done()


def sample(name: str) -> list[Path]:
    """The files of a bundled sample."""
    path = resources.path(f"samples/{name}")
    return sorted(path.iterdir()) if path.is_dir() else [path]


def main_window(*paths: Path, size: tuple[int, int] = (1366, 768)) -> MainWindow:
    """A window on a recording, analysed, or on its start page."""
    preferences = Preferences()
    preferences.animate = False
    window = MainWindow(preferences)
    window.resize(*size)
    window.show()
    window.activateWindow()
    if paths:
        window.open(list(paths))
    settle(window)
    return window


def settle(window: MainWindow) -> None:
    """Until nothing is read or computed."""
    until(lambda: window.document.stage in (Stage.READY, Stage.EMPTY) and not window.jobs.busy)
    wait()


@contextmanager
def opened(window: QWidget) -> Iterator[QWidget]:
    """Shown, and deleted afterwards by Qt."""
    window.show()
    window.activateWindow()
    wait()
    try:
        yield window
    finally:
        window.close()
        window.deleteLater()
        QCoreApplication.sendPostedEvents(window, int(QEvent.Type.DeferredDelete.value))


def compared() -> ComparisonWindow:
    window = ComparisonWindow(open_trace([PROGRAMS / "moderate.pt.trace.json.gz"]), DEFAULTS)
    window.resize(1366, 768)
    window.show()
    window.read([PROGRAMS / "moderate.fixed.pt.trace.json.gz"])
    until(lambda: window.steps is not None and not window.jobs.busy)
    return window


def tried() -> TrialsWindow:
    """The window of a trial that has ended, with a row of each kind."""
    made = Promised(1.0, 1.2, 1.4)
    candidates = (
        Candidate("tf32", Kind.SWITCH, "Use TF32 tensor cores", promised=made),
        Candidate("same-batch", Kind.CEILING, "Data loading takes no time"),
        Candidate("together", Kind.TOGETHER, "All that won, together"),
    )
    loss = LossComparison(Likeness.DIFFERS, 3e-4, 1e-7)
    won = tuple(Trial(each, Gain(1.5, 1.4, 1.6), 1e6, 12, loss=loss) for each in candidates)
    curve = (2.0, 1.5, 1.2)
    window = TrialsWindow(Subject(CaptureRequest(target=Target(program="train.py"))))
    window.resize(1366, 768)
    window.session.ended.emit(Trials(won, None, "time", "", losses=(curve,) * 3, losses_of=("", "", "tf32")))
    return window


def shortcuts() -> ShortcutSheet:
    window = MainWindow(Preferences())
    sheet = ShortcutSheet(window.commands.with_keys())
    window.deleteLater()
    return sheet


WINDOWS: dict[str, Callable[[], QWidget]] = {
    "start": main_window,
    "timeline": lambda: main_window(*sample("cpu_python.pt.trace.json.gz")),
    "ranks": lambda: main_window(*sample("straggler_four_ranks")),
    "kernel report": lambda: main_window(*sample("kernels.raw.csv.gz")),
    "comparison": compared,
    "record": CaptureDialog,
    "trials": tried,
    "open address": OpenAddress,
    "preferences": lambda: PreferencesDialog(Preferences()),
    "quality": lambda: QualityDialog(open_trace(sample("cpu_python.pt.trace.json.gz"))),
    "shortcuts": shortcuts,
    "about": AboutDialog,
    "problem": lambda: ProblemDialog("Traceback"),
}


def pages(window: QWidget) -> Iterator[str]:
    """Brings every tab of a window to the front, one after another."""
    yield ""
    for bar in window.findChildren(QTabBar):
        for index in range(bar.count()):
            if bar.isVisible() and bar.isTabEnabled(index) and bar.isTabVisible(index):
                bar.setCurrentIndex(index)
                wait()
                if isinstance(window, MainWindow):
                    settle(window)
                yield bar.tabText(index)


def controls(window: QWidget) -> list[QWidget]:
    """What can be seen there and acts on a click or takes the keyboard; parts of a control are not counted."""
    return [
        each
        for each in window.findChildren(QWidget)
        if each.isVisible()
        and not each.visibleRegion().isEmpty()
        and (isinstance(each, CONTROLS) or each.focusPolicy() & each.focusPolicy().TabFocus)
        and not isinstance(each, (QScrollBar, QHeaderView))
        and each.focusProxy() is None
        and not _is_part(each)
    ]


def _is_part(widget: QWidget) -> bool:
    parent = widget.parentWidget()
    inner = isinstance(parent, (QComboBox, QAbstractSpinBox)) or widget.objectName().startswith("qt_")
    in_table = isinstance(parent, QAbstractItemView) and isinstance(widget, QAbstractButton)
    scrolls = type(widget) is QAbstractScrollArea
    on_tabs = isinstance(parent, QTabBar)  # its buttons to scroll
    in_field = isinstance(parent, QLineEdit)
    return inner or in_table or scrolls or on_tabs or in_field
