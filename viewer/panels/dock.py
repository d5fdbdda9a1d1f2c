"""The bottom dock: one tab for each panel that has data, with one filter for the tables of the current tab."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QTabWidget, QToolButton, QWidget

from viewer.appearance.key_names import key_names
from viewer.appearance.tab_order import widgets_in_order
from viewer.appearance.widgets import NO_MARGINS, fill, horizontal, menu_button, vertical
from viewer.documents.document import Document, Stage
from viewer.panels.panel import Panel, tabs

FIRST_SHOWN = "Kernels"  # once there is an analysis
AHEAD_MS = 100  # after a trace came: its lanes are painted first
FILTER_WIDTH, NARROW_FILTER = 180, 108
SPACING = 6
MIN_WIDTH = 440  # px, whatever a tab would like
MIN_HEIGHT = 150  # px, so that nothing moves when another tab is looked at for the first time
PADDING, TIGHT = 24, 12  # px of a tab beside its title, where there is room and where there is not


class BottomPanels(QWidget):
    """Tabs that come and go with the data; keeps the current tab by name when another file is opened."""

    fill_wanted = Signal()  # a tab was double-clicked: it is to fill the window, or to give the room back

    def __init__(self, document: Document, made: Sequence[Panel] = ()) -> None:
        super().__init__()
        self._document = document
        self.panels: tuple[Panel, ...] = ()
        self.setMinimumSize(MIN_WIDTH, MIN_HEIGHT)
        self._coming = tabs(document, self, made)
        self._by_user = False  # whether the user, not the data, decided which tab is shown
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setExpanding(False)
        self.tabs.tabBar().setAccessibleName("Panels")
        self.tabs.setUsesScrollButtons(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideRight)
        self.further = menu_button(padding="4px 8px")
        self.further.setAutoRaise(True)
        self.further.setToolTip(key_names("More tabs (Ctrl+Page Down goes through all of them)"))
        self.further.menu().aboutToShow.connect(self._list_further)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter")
        self.filter.setClearButtonEnabled(True)
        self.filter.setFixedWidth(FILTER_WIDTH)
        self.filter.setAccessibleName("Filter the table")
        self.filter.setToolTip("Words, or >1ms, <20us, rank:3. Typing in a table begins here, too.")
        self.filter.textChanged.connect(self._filter_current)
        self.filter.returnPressed.connect(self._leave_filter)
        self.by_family = QToolButton()
        self.by_family.setText("By kind")
        self.by_family.setCheckable(True)
        self.by_family.setAutoRaise(True)
        self.by_family.setToolTip("Group kernels by kind, such as matrix products or copies")
        self.export = QToolButton()
        self.export.setText("Export")
        self.export.setAutoRaise(True)
        self.export.setToolTip("Export the table as CSV")
        self.export.clicked.connect(self.export_table)
        self.more = menu_button("⋯", padding="4px 8px")
        self.more.setAutoRaise(True)
        self.more.setToolTip("More")
        self.more.setAccessibleName("More")
        menu = self.more.menu()
        self.more_families = menu.addAction("By kind")
        self.more_families.setCheckable(True)
        self.more_families.toggled.connect(self.by_family.setChecked)
        self.by_family.toggled.connect(self.more_families.setChecked)
        self.by_family.toggled.connect(lambda _: self._group_current())
        self.more_export = menu.addAction("Export as CSV ...", self.export_table)
        corner = QWidget()
        row = horizontal(corner, (0, 2, 8, 2), SPACING)
        for widget in (self.further, self.by_family, self.export, self.more, self.filter):
            row.addWidget(widget)
        self.tabs.setCornerWidget(corner, Qt.Corner.TopRightCorner)
        fill(vertical(self, NO_MARGINS), self.tabs)
        self.tabs.currentChanged.connect(self._on_current)
        self.tabs.tabBarDoubleClicked.connect(lambda _: self._fill())
        self.tabs.tabBarClicked.connect(lambda _: self._choose())
        document.trace_changed.connect(lambda _: self._complete())
        document.trace_changed.connect(lambda _: self.filter.clear())
        document.trace_changed.connect(lambda _: QTimer.singleShot(AHEAD_MS, self, self._build_ahead))
        document.analysis_changed.connect(lambda _: self.update_tabs(prefer=FIRST_SHOWN))
        document.stage_changed.connect(self._on_stage)
        document.plan_changed.connect(lambda _: self.update_tabs())
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
        while self._make_next():
            pass
        self.update_tabs()

    def _build_ahead(self) -> None:
        """The tab that the analysis is going to show, while it is being made: then much else is to be shown."""
        document = self._document
        if document.trace is not None and document.trace.devices and document.analysis is None:
            for panel in self.panels:
                if panel.title == FIRST_SHOWN:
                    panel.ensure_built()

    def _take(self, panel: Panel) -> None:
        if panel.parent() is not self:
            panel.setParent(self)
        panel.hide()
        panel.tables_shown.connect(self._on_current)
        panel.typed.connect(self._begin_filter)
        self.panels = (*self.panels, panel)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._on_current()

    def _on_stage(self, stage: Stage) -> None:
        """Without an analysis the tabs that need none come when it is clear that there is none."""
        if stage is Stage.READY and self._document.analysis is None:
            self.update_tabs()

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

    def _fill(self) -> None:
        """Where the timeline had the keyboard and goes, the table gets it."""
        self.fill_wanted.emit()
        if (panel := self._current()) is not None:
            self.enter(panel.title)

    def show_panel(self, title: str) -> None:
        self._by_user = True
        for panel in self.panels:
            if panel.title == title and (index := self.tabs.indexOf(panel)) >= 0:
                self.tabs.setTabVisible(index, True)
                self.tabs.setCurrentWidget(panel)

    def enter(self, title: str) -> None:
        """Show one tab that was asked for by name, and let the keyboard go on in its table, which may come later."""
        self.show_panel(title)
        panel = self._current()
        if panel is not None:
            _go_into(panel)
            if not panel.tables:
                once = Qt.ConnectionType.SingleShotConnection
                panel.tables_shown.connect(lambda: _go_on_into(panel), once)

    def titles(self) -> list[str]:
        """The titles of the tabs, whether they have room or stand in the menu."""
        return [self.tabs.tabText(index) for index in range(self.tabs.count())]

    def _current(self) -> Panel | None:
        widget = self.tabs.currentWidget()
        return widget if isinstance(widget, Panel) else None

    def _on_current(self, _: int = -1) -> None:
        panel = self._current()
        has_table = panel is not None and any(table.isVisibleTo(panel) for table in panel.tables)
        families = panel is not None and panel.has_families
        spare = self._arrange_tabs()
        wanted = [(self.by_family, families), (self.export, has_table)]
        beside = sum(button.sizeHint().width() + SPACING for button, shown in wanted if shown)
        wide = beside + FILTER_WIDTH - NARROW_FILTER <= spare
        self.filter.setFixedWidth(FILTER_WIDTH if wide else NARROW_FILTER)
        self.filter.setVisible(has_table)
        for button, shown in wanted:
            button.setVisible(shown and wide)
        self.more_families.setVisible(families and not wide)
        self.more_export.setVisible(has_table and not wide)
        self.more.setVisible((families or has_table) and not wide)
        # the titles take what got free
        QCoreApplication.postEvent(self.tabs, QEvent(QEvent.Type.LayoutRequest))
        self._filter_current()
        self._group_current()

    def _arrange_tabs(self) -> int:
        """Titles close to each other, and the last ones in a menu, rather than cut off; returns the room left over.

        What stands beside them counts as if there was a table, so that no title moves when another tab is shown.
        """
        bar, titles, current = self.tabs.tabBar(), self.titles(), self.tabs.currentIndex()
        words = [bar.fontMetrics().size(Qt.TextFlag.TextShowMnemonic, title).width() for title in titles]
        room = self.width() - NARROW_FILTER - self.more.sizeHint().width() - 3 * SPACING
        crowded = sum(words) + PADDING * len(words) > room
        widths = [each + (TIGHT if crowded else PADDING) for each in words]
        if sum(widths) > room:
            self.further.setText(f"{len(titles)} more ▾")
            room -= self.further.sizeHint().width() + SPACING
        shown, taken = {current}, widths[current] if widths else 0
        for index, width in enumerate(widths):
            if index != current:
                if taken + width > room:
                    break
                shown.add(index)
                taken += width
        for index in range(len(titles)):
            self.tabs.setTabVisible(index, index in shown)
        self.further.setText(f"{len(titles) - len(shown)} more ▾")
        self.further.setVisible(len(shown) < len(titles))
        if crowded is not bool(bar.property("crowded")):
            bar.setProperty("crowded", crowded)
            bar.style().unpolish(bar)
            bar.style().polish(bar)
        return room - taken

    def _list_further(self) -> None:
        """When the menu opens: an action must not be deleted by what it does."""
        menu = self.further.menu()
        menu.clear()
        for index, title in enumerate(self.titles()):
            if not self.tabs.isTabVisible(index):
                menu.addAction(title, partial(self.show_panel, title))

    def walk(self, by: int) -> None:
        """To the tab that comes so many after the shown one, from the last one to the first."""
        if titles := self.titles():
            self.show_panel(titles[(self.tabs.currentIndex() + by) % len(titles)])

    def _begin_filter(self, text: str) -> None:
        """Typed into a table: the filter takes it and what follows."""
        self.filter.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.filter.setText(self.filter.text() + text)

    def _leave_filter(self) -> None:
        if (panel := self._current()) is not None:
            _go_into(panel)

    def _filter_current(self, _: str = "") -> None:
        panel = self._current()
        if panel is not None:
            panel.set_filter(self.filter.text())

    def _group_current(self) -> None:
        panel = self._current()
        if panel is not None and panel.has_families:
            panel.group_by_family(self.by_family.isChecked())

    def export_table(self) -> None:
        panel = self._current()
        for table in panel.tables if panel is not None else ():
            if table.isVisible():
                table.export_csv()
                return


def _go_on_into(panel: Panel) -> None:
    focus = QApplication.focusWidget()
    if focus is not None and panel.isAncestorOf(focus):
        _go_into(panel)


def _go_into(panel: Panel) -> None:
    tables = [table for table in panel.tables if table.isVisible()]
    for widget in [*tables, *widgets_in_order([panel])][:1]:
        widget.setFocus(Qt.FocusReason.TabFocusReason)
