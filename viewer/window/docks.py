"""The panels at the right and at the bottom of the window: how large they are, and how the user left them."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QSizePolicy, QWidget

from viewer.kept.preferences import Preferences

LAYOUT_VERSION: Final = 1
DIAGNOSIS_WIDTH: Final = 370
BOTTOM_HEIGHT, BOTTOM_SHARE = 206, 0.22  # pixels at least, where the window is high enough; of a high window
MOST_FOR_PANELS: Final = 0.5  # of the window: more was meant for a larger screen
HIGH: Final = 1080  # px
NARROW: Final = 900  # px: less has no room for both beside the timeline


class Docks:
    """The diagnosis at the right and the tabs at the bottom of one window."""

    def __init__(
        self, window: QMainWindow, preferences: Preferences, diagnosis: QWidget, panels: QWidget
    ) -> None:
        self._window, self._preferences = window, preferences
        window.setDockOptions(
            QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AllowNestedDocks
        )
        window.setCorner(Qt.Corner.BottomRightCorner, Qt.DockWidgetArea.RightDockWidgetArea)
        self.diagnosis = self._dock("Diagnosis", diagnosis, Qt.DockWidgetArea.RightDockWidgetArea)
        self.panels = self._dock("Panels", panels, Qt.DockWidgetArea.BottomDockWidgetArea)
        self._arranged = self._whole = False

    def _dock(self, name: str, widget: QWidget, area: Qt.DockWidgetArea) -> QDockWidget:
        dock = QDockWidget(name, self._window)
        dock.setObjectName(f"dock {name}")
        dock.setWidget(widget)
        dock.setFeatures(QDockWidget.DockWidgetFeature.DockWidgetClosable)
        dock.setTitleBarWidget(QWidget(dock))
        self._window.addDockWidget(area, dock)
        return dock

    def restore(self) -> None:
        """As the user left them, and the window where it was."""
        geometry = self._preferences.bytes_of("geometry")
        state = self._preferences.bytes_of("state")
        if geometry is not None:
            self._window.restoreGeometry(geometry)
        self._arranged = state is not None and self._window.restoreState(state, LAYOUT_VERSION)

    def keep(self) -> None:
        """Remember how they are now."""
        self._preferences.keep_bytes("geometry", QByteArray(self._window.saveGeometry()))
        self._preferences.keep_bytes("state", QByteArray(self._window.saveState(LAYOUT_VERSION)))
        self._preferences.flush()

    def fit_first_screen(self) -> None:
        """When the window appears: the sizes they were designed with, unless what was kept fits this screen."""
        if not self._arranged or self.panels.height() > self._window.height() * MOST_FOR_PANELS:
            self._arranged = True
            self.reset_sizes()

    def fit_height(self, before: int) -> None:
        """What has the height by design of a window ``before`` pixels high gets that of the present one."""
        if self._arranged and abs(self.panels.height() - _height_in(before)) <= 1:
            self._window.resizeDocks(
                [self.panels], [_height_in(self._window.height())], Qt.Orientation.Vertical
            )

    def fit_width(self) -> None:
        """Behind each other where the window is narrow."""
        narrow = self._window.width() < NARROW
        tabbed = self.panels in self._window.tabifiedDockWidgets(self.diagnosis)
        if narrow and not tabbed:
            self._window.tabifyDockWidget(self.panels, self.diagnosis)
            self.diagnosis.raise_()
        elif tabbed and not narrow:
            self._window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.diagnosis)
            self.reset_sizes()

    def reset_sizes(self) -> None:
        """As wide and as high as they were designed."""
        window = self._window
        width = min(DIAGNOSIS_WIDTH, max(window.width() * 3 // 10, 326))
        window.resizeDocks([self.diagnosis], [width], Qt.Orientation.Horizontal)
        window.resizeDocks([self.panels], [_height_in(window.height())], Qt.Orientation.Vertical)

    def give_room(self, whole: bool) -> None:
        """All room to the tabs, while there is no timeline; then what they had by design."""
        if (middle := self._window.centralWidget()) is not None:
            height = QSizePolicy.Policy.Maximum if whole else QSizePolicy.Policy.Preferred
            middle.setSizePolicy(QSizePolicy.Policy.Preferred, height)
        if self._whole and not whole:
            self.reset_sizes()
        self._whole = whole

    def forget(self) -> None:
        """Forget how the user arranged them."""
        self._preferences.forget_layout()
        self._window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.diagnosis)
        self._window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, self.panels)


def _height_in(window: int) -> int:
    """The height by design of the tabs in a window of this height."""
    height = min(max(BOTTOM_HEIGHT, round(window * BOTTOM_SHARE)), window // 4)
    return height + max(window - HIGH, 0) // 3  # of a very high window the lanes leave some over
