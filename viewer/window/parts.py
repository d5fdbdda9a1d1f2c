"""The parts of one window that its commands work on, put together by the window itself."""

from __future__ import annotations

from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabWidget

from parsers.model.late import dataclass
from viewer.appearance.home_focus import HomeFocus
from viewer.documents.document import Document
from viewer.panels.dock import BottomPanels
from viewer.panels.findings.diagnosis import DiagnosisPanel
from viewer.panels.fixes.what_if import WhatIfPanel
from viewer.panels.tabs.bookmarks import BookmarksPanel
from viewer.start.start_page import StartPage
from viewer.timeline.view import TimelineView
from viewer.user_data.preferences import Preferences
from viewer.window.banner import Banner
from viewer.window.lanes_above import PredictedLanes
from viewer.window.searching import Searching
from viewer.window.timeline_link import TimelineLink
from viewer.window.toolbar import ToolBar
from viewer.window.verdict import VerdictStrip


@dataclass(frozen=True, slots=True)
class Parts:
    """``window`` is what dialogs lie above; whatever concerns the window as a whole is asked for by signals."""

    window: QMainWindow
    preferences: Preferences
    document: Document
    toolbar: ToolBar
    banner: Banner
    verdict: VerdictStrip
    timeline: TimelineView
    start_page: StartPage
    diagnosis: DiagnosisPanel
    fixes: WhatIfPanel
    side: QTabWidget  # the two above, beside the timeline
    bookmarks: BookmarksPanel
    panels: BottomPanels
    diagnosis_dock: QDockWidget
    panels_dock: QDockWidget
    link: TimelineLink
    searching: Searching
    home: HomeFocus
    predicted: PredictedLanes
