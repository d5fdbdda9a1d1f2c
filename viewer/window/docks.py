"""The panels at the right and at the bottom of the window: how large they are, and how the user left them."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QByteArray, QEvent, QObject, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QSizePolicy, QWidget

from viewer.timeline.view import TimelineView
from viewer.user_data.preferences import Preferences

LAYOUT_VERSION: Final = 1
DIAGNOSIS_WIDTH, MIN_DIAGNOSIS = 370, 290  # px
BOTTOM_HEIGHT, BOTTOM_SHARE = 206, 0.22  # pixels at least, where the window is high enough; of a high window
MAX_FOR_PANELS: Final = 0.5  # of the window, however little the lanes need
NARROW: Final = 900  # px: less has no room for both beside the timeline


class Docks(QObject):
    """The diagnosis at the right and the tabs at the bottom of one window.

    The tabs have the share of the window's height that the user gave them, else what is theirs by design and what
    the lanes leave over.
    """

    def __init__(
        self,
        window: QMainWindow,
        preferences: Preferences,
        diagnosis: QWidget,
        panels: QWidget,
        timeline: TimelineView,
    ) -> None:
        super().__init__(window)
        self._window, self._preferences, self._timeline = window, preferences, timeline
        window.setDockOptions(
            QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AllowNestedDocks
        )
        window.setCorner(Qt.Corner.BottomRightCorner, Qt.DockWidgetArea.RightDockWidgetArea)
        diagnosis.setMinimumWidth(MIN_DIAGNOSIS)
        self.diagnosis = self._dock("Diagnosis", diagnosis, Qt.DockWidgetArea.RightDockWidgetArea)
        self.panels = self._dock("Panels", panels, Qt.DockWidgetArea.BottomDockWidgetArea)
        self._arranged = self._whole = self.filled = False
        self._share: float | None = None  # of the window's height, as the user chose it
        self._pressed = 0  # px: how high the tabs were when a mouse button went down
        window.installEventFilter(self)
        timeline.ready.connect(self.fit_height)
        timeline.state.room_changed.connect(self.fit_height)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Mouse events of the window itself are those on the lines between its parts."""
        if event.type() is QEvent.Type.MouseButtonPress:
            self._pressed = self.panels.height()
        elif event.type() is QEvent.Type.MouseButtonRelease and self.panels.height() != self._pressed:
            self._share = self.panels.height() / self._window.height()
        return super().eventFilter(watched, event)

    def _dock(self, name: str, widget: QWidget, area: Qt.DockWidgetArea) -> QDockWidget:
        dock = QDockWidget(name, self._window)
        dock.setObjectName(f"dock {name}")
        dock.setWidget(widget)
        dock.setFeatures(QDockWidget.DockWidgetFeature.DockWidgetClosable)
        dock.setTitleBarWidget(QWidget(dock))
        self._window.addDockWidget(area, dock)
        return dock

    def restore(self) -> None:
        geometry = self._preferences.bytes_of("geometry")
        state = self._preferences.bytes_of("state")
        share = self._preferences.bytes_of("panels")
        if geometry is not None:
            self._window.restoreGeometry(geometry)
        self._arranged = state is not None and self._window.restoreState(state, LAYOUT_VERSION)
        self._share = float(share.data()) or None if share is not None else None

    def fill(self, on: bool) -> None:
        if on is self.filled:
            return
        self.filled = on
        if (middle := self._window.centralWidget()) is not None:
            middle.setVisible(not self.filled)
        self.diagnosis.setVisible(not self.filled)
        self.fit_height()

    def keep(self) -> None:
        self.fill(False)
        self._preferences.keep_bytes("geometry", QByteArray(self._window.saveGeometry()))
        self._preferences.keep_bytes("state", QByteArray(self._window.saveState(LAYOUT_VERSION)))
        self._preferences.keep_bytes("panels", QByteArray.number(self._share or 0.0))
        self._preferences.flush()

    def fit_first_screen(self) -> None:
        """When the window appears: the width by design, unless one was kept."""
        if not self._arranged:
            self._arranged = True
            self.reset_sizes()

    def fit_height(self) -> None:
        """The tabs have their share of the window as it is now."""
        whole = self._window.height()
        layout = self._window.layout()
        if layout is None or not self.panels.isVisible() or self._whole or self.filled:
            return
        layout.activate()
        height = min(max(BOTTOM_HEIGHT, round(whole * BOTTOM_SHARE)), whole // 4)
        if self._share is not None:
            height = round(whole * min(self._share, MAX_FOR_PANELS))
        elif self._timeline.isVisible():
            room = self._timeline.canvas.height() + self.panels.height() - height
            height = min(height + self._timeline.state.grow_for(room), round(whole * MAX_FOR_PANELS))
        self._window.resizeDocks([self.panels], [height], Qt.Orientation.Vertical)

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
        width = min(DIAGNOSIS_WIDTH, max(self._window.width() * 3 // 10, 326))
        self._window.resizeDocks([self.diagnosis], [width], Qt.Orientation.Horizontal)
        self.fit_height()

    def give_room(self, whole: bool) -> None:
        """All room to the tabs, while there is no timeline; then what they had by design."""
        if (middle := self._window.centralWidget()) is not None:
            height = QSizePolicy.Policy.Maximum if whole else QSizePolicy.Policy.Preferred
            middle.setSizePolicy(QSizePolicy.Policy.Preferred, height)
        before, self._whole = self._whole, whole
        if before and not whole:
            self.reset_sizes()

    def forget(self) -> None:
        self._preferences.forget_layout()
        self._share = None
        self._window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.diagnosis)
        self._window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, self.panels)
