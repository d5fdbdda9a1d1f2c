"""The bottom dock: one tab for each panel that has data, with one filter for the tables of the current tab."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QMenu, QTabWidget, QToolButton, QVBoxLayout, QWidget

from viewer.document import Document, Stage
from viewer.panels.panel import Panel, tabs

FILTER_WIDTH, NARROW_FILTER = 180, 108
NARROW = 860
PADDING = 24  # px of a tab beside its title, where there is room


class BottomPanels(QWidget):
    """Tabs that come and go with the data; keeps the current tab by name when another file is opened."""

    def __init__(self, document: Document, made: Sequence[Panel] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._document = document
        self.panels: tuple[Panel, ...] = ()
        self._coming = tabs(document, self, made)
        self._by_user = False  # whether the user, not the data, decided which tab is shown
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setExpanding(False)
        self.tabs.tabBar().setAccessibleName("Panels")
        self.tabs.setUsesScrollButtons(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideRight)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter")
        self.filter.setClearButtonEnabled(True)
        self.filter.setFixedWidth(FILTER_WIDTH)
        self.filter.setAccessibleName("Filter the table")
        self.filter.textChanged.connect(self._filter_current)
        self.by_family = QToolButton()
        self.by_family.setText("By kind")
        self.by_family.setCheckable(True)
        self.by_family.setAutoRaise(True)
        self.by_family.setToolTip("One row for each kind of kernel, such as matrix products or copies")
        self.export = QToolButton()
        self.export.setText("Export")
        self.export.setAutoRaise(True)
        self.export.setToolTip("Export the table as CSV")
        self.export.clicked.connect(self.export_table)
        self.more = QToolButton()
        self.more.setText("⋯")
        self.more.setAutoRaise(True)
        self.more.setToolTip("What there is no room for")
        self.more.setAccessibleName("More")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setStyleSheet(
            "QToolButton { padding: 4px 8px; } QToolButton::menu-indicator { image: none; } "
            "QToolButton:!hover:!pressed { background: transparent; }"
        )
        menu = QMenu(self.more)
        self.more_families = menu.addAction("By kind")
        self.more_families.setCheckable(True)
        self.more_families.toggled.connect(self.by_family.setChecked)
        self.by_family.toggled.connect(self.more_families.setChecked)
        self.more_export = menu.addAction("Export as CSV ...", self.export_table)
        self.more.setMenu(menu)
        corner = QWidget()
        row = QHBoxLayout(corner)
        row.setContentsMargins(0, 2, 8, 2)
        row.setSpacing(6)
        for widget in (self.by_family, self.export, self.more, self.filter):
            row.addWidget(widget)
        for button in (self.by_family, self.export):
            button.setStyleSheet("QToolButton:!hover:!checked { background: transparent; }")
        self.tabs.setCornerWidget(corner, Qt.Corner.TopRightCorner)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs)
        self.tabs.currentChanged.connect(self._on_current)
        self.tabs.tabBarClicked.connect(lambda _: self._choose())
        document.trace_changed.connect(lambda _: self._complete())
        document.analysis_changed.connect(lambda _: self.update_tabs(prefer="Kernels"))
        document.stage_changed.connect(lambda stage: self.update_tabs() if stage is Stage.READY else None)
        self._on_current()
        QTimer.singleShot(0, self, self._make_one)

    def _make_one(self) -> None:
        """One more tab in each turn of the event loop, so that a new window answers at once."""
        if self._make_next():
            QTimer.singleShot(0, self, self._make_one)
        elif self._document.trace is None:
            self._complete()

    def _make_next(self) -> bool:
        for panel in self._coming:
            if panel is not None:
                self._take(panel)
            return True
        return False

    def _complete(self) -> None:
        """All tabs now: there is a recording, or there was time to make them."""
        while self._make_next():
            pass
        self.update_tabs()

    def _take(self, panel: Panel) -> None:
        panel.setParent(self)
        panel.hide()
        panel.tables_shown.connect(self._on_current)
        self.panels = (*self.panels, panel)
        if panel.has_families:
            self.by_family.toggled.connect(panel.group_by_family)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._on_current()

    def update_tabs(self, prefer: str = "") -> None:
        """Show the tabs that have data now; ``prefer`` becomes current unless something is selected."""
        wanted = [panel for panel in self.panels if panel.has_data() and self._is_allowed(panel)]
        if wanted != [self.tabs.widget(index) for index in range(self.tabs.count())]:
            shown = self._to_show(wanted, prefer)
            blocked = self.tabs.blockSignals(True)
            if shown is not None:  # first, so that no other tab is visible in between and computes for nobody
                self._insert(shown)
                self.tabs.setCurrentWidget(shown)
            for panel in self.panels:
                if panel in wanted:
                    self._insert(panel)
                elif (index := self.tabs.indexOf(panel)) >= 0:
                    self.tabs.removeTab(index)
            self.tabs.blockSignals(blocked)
        self._on_current()

    def _insert(self, panel: Panel) -> None:
        """Give a panel its tab, in the order of the panels."""
        if self.tabs.indexOf(panel) < 0:
            earlier = self.panels[: self.panels.index(panel)]
            self.tabs.insertTab(sum(self.tabs.indexOf(each) >= 0 for each in earlier), panel, panel.title)

    def _is_allowed(self, panel: Panel) -> bool:
        """Nothing is counted before all is read, nor twice: before the analysis says which time counts."""
        document = self._document
        waiting = document.analysis is None and document.stage in (Stage.LOADING, Stage.ANALYSING)
        return not waiting or panel.of_selection

    def _to_show(self, wanted: Sequence[Panel], prefer: str) -> Panel | None:
        keep = next((panel for panel in wanted if panel is self.tabs.currentWidget()), None)
        if keep is None or not self._by_user:
            others = [panel for panel in wanted if not panel.of_selection]
            preferred = next((panel for panel in others if panel.title == prefer), None)
            keep = preferred if preferred is not None else others[0] if others else keep
        return keep if keep is not None else wanted[0] if wanted else None

    def _choose(self) -> None:
        self._by_user = True

    def show_panel(self, title: str) -> None:
        """Bring one tab to the front, if it is there."""
        self._by_user = True
        for panel in self.panels:
            if panel.title == title and self.tabs.indexOf(panel) >= 0:
                self.tabs.setCurrentWidget(panel)

    def titles(self) -> list[str]:
        """The titles of the tabs that are shown."""
        return [self.tabs.tabText(index) for index in range(self.tabs.count())]

    def _current(self) -> Panel | None:
        widget = self.tabs.currentWidget()
        return widget if isinstance(widget, Panel) else None

    def _on_current(self, _: int = -1) -> None:
        panel = self._current()
        has_table = panel is not None and any(table.isVisibleTo(panel) for table in panel.tables)
        families = panel is not None and panel.has_families
        self.filter.setFixedWidth(FILTER_WIDTH)
        if self.width() < NARROW or not self._fits():
            self.filter.setFixedWidth(NARROW_FILTER)
        self.filter.setVisible(has_table)
        self.export.setVisible(has_table and self._fits(self.export))
        beside = (self.by_family,) if self.export.isHidden() else (self.by_family, self.export)
        self.by_family.setVisible(families and self._fits(*beside))
        self.more_families.setVisible(families and self.by_family.isHidden())
        self.more_export.setVisible(has_table and self.export.isHidden())
        self.more.setVisible(self.more_families.isVisible() or self.more_export.isVisible())
        self._crowd()
        QCoreApplication.postEvent(
            self.tabs, QEvent(QEvent.Type.LayoutRequest)
        )  # the titles take what got free
        self._filter_current()

    def _crowd(self) -> None:
        """Titles close to each other rather than cut off."""
        bar, corner = self.tabs.tabBar(), self.tabs.cornerWidget(Qt.Corner.TopRightCorner)
        titles = sum(bar.fontMetrics().horizontalAdvance(title) + PADDING for title in self.titles())
        crowded = titles + corner.sizeHint().width() > self.width()
        if crowded is not bool(bar.property("crowded")):
            bar.setProperty("crowded", crowded)
            bar.style().unpolish(bar)
            bar.style().polish(bar)

    def _fits(self, *widgets: QWidget) -> bool:
        """Whether these have room beside the titles of all tabs and the filter."""
        taken = self.tabs.tabBar().sizeHint().width() + self.filter.width() + self.more.sizeHint().width()
        return taken + sum(each.sizeHint().width() for each in widgets) + 20 <= self.width()

    def _filter_current(self, _: str = "") -> None:
        panel = self._current()
        if panel is not None:
            panel.set_filter(self.filter.text())

    def export_table(self) -> None:
        """Ask for a file and write the shown table into it."""
        panel = self._current()
        for table in panel.tables if panel is not None else ():
            if table.isVisible():
                table.export_csv()
                return
