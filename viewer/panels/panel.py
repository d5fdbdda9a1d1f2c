"""What a tab of the bottom dock is, and how the tabs are found; it computes off the GUI thread and only while shown."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from parsers.model import Progress
from parsers.model.catalogs import loading
from parsers.model.units import duration
from viewer.appearance.widgets import NO_MARGINS, Label, vertical
from viewer.documents.document import Document
from viewer.timeline.selection import Area

if TYPE_CHECKING:
    from viewer.panels.tables.table_view import TableView
    from viewer.query.explained import Behind

S = TypeVar("S")
T = TypeVar("T")


class Panel(QWidget):
    """Base of the tabs. ``build`` is called before the panel is shown for the first time, which most never are;

    ``refresh`` when it is visible and what it shows is out of date.
    """

    title = ""
    lacks = ""  # where it has no data: what is missing, and which recording has it
    order = 0  # among the tabs
    follows_step = False
    follows_area = False
    says_whole_run = False  # does not follow the chosen step, and says so
    of_selection = False  # shows what is selected, and nothing until something is
    has_families = False  # can show families instead of single kernels
    tables: tuple[TableView, ...] = ()
    tables_shown = Signal()  # another one of them, or none, is visible now
    typed = Signal(str)  # into a table: it belongs into the filter

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.document = document
        self._built = False
        self._stale = True
        self._seen: tuple[object, int] = (None, -1)
        self.setAccessibleName(self.title)
        self.column = vertical(self, NO_MARGINS, 0)

    def build(self) -> None:
        """Make the widgets in ``column``, and listen to what changes them."""

    def ensure_built(self) -> None:
        """Build the panel, unless that has been done."""
        if self._built:
            return
        self._built = True
        document = self.document
        document.trace_changed.connect(lambda _: self._to_top())
        document.trace_changed.connect(self.invalidate)
        document.analysis_changed.connect(self._on_document)
        if self.follows_step:
            document.step_changed.connect(self._on_document)
        self.scope = Label("", "secondary", pixels=12)
        self.scope.setContentsMargins(14, 5, 10, 5)
        self.scope.hide()
        self.column.insertWidget(0, self.scope)
        document.step_changed.connect(lambda _: self._say_scope())
        document.trace_changed.connect(lambda _: self._say_scope())
        if self.follows_area:
            document.area_changed.connect(self._follow)
        self.build()
        self._listen_to_tables()
        self.tables_shown.connect(self._listen_to_tables)
        self._say_scope()

    def fit(self) -> None:
        """Arrange the widgets for another size; only asked of a panel that is built."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._built:
            self.fit()

    def setVisible(self, visible: bool) -> None:
        if visible:
            self.ensure_built()
        super().setVisible(visible)

    @property
    def span(self) -> tuple[int, int]:
        """The time (ns) that this panel's numbers speak of: the selected area, else the selected step, else all."""
        area = self.document.area if self.follows_area else None
        return self.document.window if area is None else (area.start, area.end)

    def _follow(self, _: Area | None) -> None:
        self._say_scope()
        self.invalidate()

    def _say_scope(self) -> None:
        """Which time the numbers are of, where that is not all of it, and where a chosen step does not narrow them."""
        document = self.document
        area = document.area if self.follows_area else None
        text = ""
        if area is not None:
            text = f"Only what starts in the selected {duration(area.end - area.start)}. Esc shows everything again."
        elif 0 <= document.step < len(document.steps) and not self.of_selection:
            name = document.steps[document.step].name
            text = (
                f"Step {name} only"
                if self.follows_step
                else f"All steps, not just {name}" * self.says_whole_run
            )
        self.scope.setText(text)
        self.scope.setVisible(bool(text))

    def has_data(self) -> bool:
        """Whether the tab is shown for the document as it is now."""
        return self.document.trace is not None

    def refresh(self) -> None:
        """Compute and show."""

    def invalidate(self, _: object = None) -> None:
        self._stale = True
        if self.isVisible():
            self._refresh_now()

    def _to_top(self) -> None:
        """Another recording begins with its first rows."""
        for table in self.tables:
            table.scrollToTop()
            table.horizontalScrollBar().setValue(0)

    def _on_document(self, _: object) -> None:
        """Another analysis or step, of which this panel may have heard already by becoming visible."""
        if self._stale or self._seen != self._state():
            self.invalidate()

    def _state(self) -> tuple[object, int]:
        analysis = self.document.analysis
        return analysis and weakref.ref(analysis), self.document.step

    def _refresh_now(self) -> None:
        self._stale, self._seen = False, self._state()
        if self.has_data():
            self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.ensure_built()
        if self._stale:
            self._refresh_now()

    def compute(self, work: Callable[[], T], answer: Callable[[T], None]) -> None:
        """Run ``work`` off the GUI thread; a newer call replaces this one."""

        def run(progress: Progress) -> T:
            progress.step(0.0, self.title.lower())
            return work()

        self.document.jobs.ask(f"panel {self.title}", run, answer, in_turn=True)

    def compute_of(self, subject: S | None, work: Callable[[S], T], answer: Callable[[T], None]) -> None:
        """``compute`` of the open recording or its analysis; nothing where there is none."""
        if subject is not None:
            self.compute(lambda: work(subject), answer)

    def select_event_of(self, table: TableView, row: int) -> None:
        """Select the event that a row stands for: its column ``event``."""
        frame = table.rows.frame
        if frame is not None:
            self.document.show_event(int(frame["event"].iloc[row]))

    def mark_name_of(self, table: TableView, event: int) -> None:
        """Mark the row with the name of an event, or none where no row has it; -1 changes nothing."""
        trace = self.document.trace
        if trace is not None and event >= 0:
            table.select_first("name", trace.name(event))

    def behind(self, table: TableView, row: int) -> Behind | None:
        """What the figures in a row (of the frame) are worked out from; None where that is no table's rows."""
        return None

    def _listen_to_tables(self) -> None:
        for table in self.tables:
            if not table.is_filtered:
                table.is_filtered = True
                table.typed.connect(self.typed)
            if not table.explains and type(self).behind is not Panel.behind:
                table.explains = True
                table.explain_wanted.connect(partial(self._explain, table))

    def _explain(self, table: TableView, row: int) -> None:
        found = self.behind(table, row)
        if found is not None:
            self.document.question_wanted.emit(found.question)

    def group_by_family(self, grouped: bool) -> None:
        """Show kernel families instead of single kernels; only asked of a panel that ``has_families``."""

    def set_filter(self, text: str) -> None:
        for table in self.tables:
            table.set_filter(text)


P = TypeVar("P", bound=type[Panel])
_TABS: list[type[Panel]] = []


def tab(cls: P) -> P:
    """Make a panel one of the tabs."""
    _TABS.append(cls)
    return cls


def tabs(document: Document, parent: QWidget, made: Sequence[Panel] = ()) -> Iterator[Panel | None]:
    """Every tab in its order, each made when it is asked for: a window is there before its tabs are.

    None stands for a module that was found meanwhile. What is ``made`` already takes its place.
    """
    for _ in loading(f"{__package__}.tabs"):
        yield None
    for cls in sorted(_TABS, key=lambda each: each.order):
        known = next((each for each in made if type(each) is cls), None)
        yield cls(document, parent) if known is None else known
