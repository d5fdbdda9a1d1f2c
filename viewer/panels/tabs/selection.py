"""The selection tab: one event, one gap or one area, with everything that is known about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSplitter, QStackedLayout, QWidget

from parsers.model import EventKind, Progress
from parsers.model.arrays import median_of
from parsers.model.units import duration
from parsers.storage.cache import changed_files
from viewer.appearance.naming import python_name
from viewer.appearance.widgets import ElidedLabel, Label, fill, unbroken, vertical
from viewer.documents.document import Document
from viewer.panels.charts.histogram import Histogram
from viewer.panels.panel import Panel, tab
from viewer.panels.selected_area import SelectedArea
from viewer.panels.tables.facts import FactList
from viewer.panels.tables.table_model import Column
from viewer.panels.tables.table_view import TableView
from viewer.statistics.event_facts import (
    Fact,
    as_text,
    call_stack,
    called,
    fact_of_slack,
    facts_of_event,
    facts_of_gap,
)
from viewer.statistics.event_search import Walk
from viewer.timeline.selection import Area

if TYPE_CHECKING:
    import pandas as pd

    from viewer.statistics.area import DeviceArea

ARGUMENT_COLUMNS = (Column("name", "Argument"), Column("value", "Value", stretch=True, whole="whole"))
MAX_VALUE_LENGTH = 4000
MAX_HISTOGRAM = 320  # pixels: higher bars say no more
NARROW = 760  # pixels: less has no room for facts, arguments and histogram side by side


@tab
class SelectionPanel(Panel):
    """Follows the document's event, gap and area; the last thing selected is the one shown."""

    title = "Selection"
    order = 10
    of_selection = True

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(document, parent)
        document.event_changed.connect(self.show_event)
        document.gap_changed.connect(self.show_gap)
        document.area_changed.connect(self.show_area)

    def build(self) -> None:
        self._walk: Walk | None = None
        self._has_arguments = False
        self._area: Area | None = None
        self._told_of: object = None  # the trace whose changed file was told of
        self._stack = QStackedLayout()
        self._stack.currentChanged.connect(lambda _: self.tables_shown.emit())
        self.column.addLayout(self._stack)
        self._hint = Label("Click an event or a gap, or drag over an area, to see what it is.", "secondary")
        self._hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._stack.addWidget(self._hint)

    @property
    def text(self) -> str:
        """What is told of the event or the gap, as text; empty before there was one."""
        return as_text(self.facts.title, self.facts.facts) if "single" in vars(self) else ""

    @cached_property
    def single(self) -> QWidget:
        self.facts = FactList()
        self.facts.event_wanted.connect(self.document.select_event)
        self.arguments = TableView(ARGUMENT_COLUMNS, "Arguments")
        self.histogram = Histogram()
        self.histogram.chosen.connect(self._walk_bin)
        self._alike = ElidedLabel("", weight=QFont.Weight.DemiBold)
        self._alike_text = Label("", "secondary", pixels=12, wrap=True)
        side = self._side = QWidget()
        column = vertical(side, (12, 10, 12, 8), 4)
        self.profile_button = QPushButton("Profile it ...")
        self.profile_button.setAccessibleName("Profile this kernel")
        self.profile_button.setProperty("link", True)
        self.profile_button.setStyleSheet("padding: 2px 7px;")
        self.histogram.setMaximumHeight(MAX_HISTOGRAM)
        heading = fill(QHBoxLayout(), (self._alike, 1), self.profile_button)
        fill(column, heading, self._alike_text, (self.histogram, 1), 0)
        self.profile_button.setToolTip(
            "Opens the form for recording with Nsight Compute, with this kernel's name and the launches to skip"
        )
        self.profile_button.clicked.connect(self._profile)
        split = QSplitter(Qt.Orientation.Horizontal)
        for index, (widget, stretch) in enumerate(((self.facts, 4), (self.arguments, 4), (side, 3))):
            split.addWidget(widget)
            split.setStretchFactor(index, stretch)
        split.setSizes([400, 400, 300])
        split.setChildrenCollapsible(False)
        self.tables = (*self.tables, self.arguments)
        self._stack.addWidget(split)
        return split

    @cached_property
    def area(self) -> SelectedArea:
        area = SelectedArea(self.document)
        area.wanted.connect(self._fill_area)
        self.tables = (area.table, *self.tables)
        self._stack.addWidget(area)
        return area

    def _profile(self) -> None:
        from viewer.capture.next_recording import kernel_recording

        trace, event = self.document.trace, self.document.selected_event
        if trace is not None and event >= 0:
            self.document.recording_wanted.emit(kernel_recording(trace, event))

    def refresh(self) -> None:
        if self.document.selected_event < 0 and self.document.area is None and self.document.selected_gap < 0:
            self._stack.setCurrentWidget(self._hint)

    def show_event(self, event: int) -> None:
        """Show one event; -1 shows the hint."""
        self.ensure_built()
        trace = self.document.trace
        if trace is None or event < 0:
            if self.document.area is None:
                self._stack.setCurrentWidget(self._hint)
            return
        single = self.single
        name = trace.name(event)
        gpu = bool(trace.events.kind[event] == EventKind.KERNEL)
        title = called(trace, event)
        facts = facts_of_event(trace, event, self.document.analysis)
        self.facts.show_facts(title, facts)
        self._fetch_slack(event, title, facts)
        stack = [trace.name(frame) for frame in call_stack(trace, event)]
        whole = {} if title == name else {"full name": name}
        self._show_arguments(whole, stack)
        self._fetch_arguments(event, whole, stack)
        self._show_alike(event)
        self.profile_button.setVisible(gpu)
        self._side.show()
        self._stack.setCurrentWidget(single)

    def _fetch_slack(self, event: int, title: str, facts: list[Fact]) -> None:
        """Add how much later the event could be; the steps are gone through backwards for it once."""
        analysis, plan = self.document.analysis, self.document.plan
        if analysis is None or plan is None or plan.reason:
            return

        def work(progress: Progress) -> int | None:
            from rules.replay.slack import slack_of

            progress.step(0.0, "looking for slack")
            return slack_of(analysis).of(event)

        def show(ns: int | None) -> None:
            if (
                ns is not None
                and self.document.analysis is analysis
                and self.document.selected_event == event
            ):
                self.facts.show_facts(title, [*facts, fact_of_slack(ns)])

        self.document.jobs.ask("slack", work, show)

    def _fetch_arguments(self, event: int, whole: dict[str, str], stack: list[str]) -> None:
        """Read them off the GUI thread: in a large packed file they may lie far behind its beginning."""
        trace = self.document.trace
        if trace is None:
            return

        def read(progress: Progress) -> tuple[Mapping[str, Any], list[str]]:
            progress.step(0.0, "reading arguments")
            arguments = trace.arguments(event)
            return arguments, [] if arguments else changed_files(trace)

        def show(result: tuple[Mapping[str, Any], list[str]]) -> None:
            arguments, changed = result
            if self.document.trace is trace and self.document.selected_event == event:
                self._show_arguments({**whole, **arguments}, stack)
                self._say_changed(changed)

        self.document.jobs.ask("arguments", read, show)

    def _say_changed(self, files: Sequence[str]) -> None:
        """Say once that arguments cannot be read any more, and from which file."""
        if files and self._told_of is not self.document.trace:
            self._told_of = self.document.trace
            self.document.failed.emit(
                f"{files[0]} has changed or is gone since it was opened, so the arguments of events cannot be read.",
                "Everything else is shown as it was read. Open the file again to see what it holds now.",
            )

    def _show_arguments(self, arguments: Mapping[str, Any], stack: list[str]) -> None:
        import pandas as pd

        rows = [(str(key), text, text) for key, text in ((k, _as_text(v)) for k, v in arguments.items())]
        rows += [
            (f"frame {len(stack) - index}", python_name(frame), frame)
            for index, frame in enumerate(reversed(stack))
        ]
        self.arguments.set_frame(pd.DataFrame(rows, columns=["name", "value", "whole"], dtype=object))
        self._has_arguments = bool(rows)
        self._arrange()

    def _arrange(self) -> None:
        self.arguments.setVisible(self._has_arguments and self.width() >= NARROW)
        self.tables_shown.emit()

    def fit(self) -> None:
        if "single" in vars(self):
            self._arrange()

    def _show_alike(self, event: int) -> None:
        from viewer.statistics.area import instances

        trace = self.document.trace
        assert trace is not None
        alike = instances(trace, int(trace.events.name[event]))
        lengths = trace.events.duration[alike]
        place = int(np.searchsorted(trace.events.start[alike], trace.events.start[event])) + 1
        self._alike.setText(f"number {place:,} of {len(alike):,}")
        self._alike_text.setText(
            unbroken(
                f"with this name: total {duration(int(lengths.sum()))}, "
                f"median {duration(float(median_of(lengths)))}, longest {duration(int(lengths.max()))}"
            )
        )
        self.histogram.show_durations(alike, lengths, event)

    def _walk_bin(self, events: np.ndarray) -> None:
        trace = self.document.trace
        if trace is not None and len(events):
            now = (
                trace.events.start[self.document.selected_event] + 1
                if self.document.selected_event >= 0
                else 0
            )
            self._walk = Walk(trace, events, "")
            self.document.select_event(self._walk.start_at(int(now)))

    def show_gap(self, row: int) -> None:
        """Show one row of the idle table; -1 shows the hint."""
        self.ensure_built()
        analysis = self.document.analysis
        if analysis is None or row < 0:
            self.refresh()
            return
        single, facts = self.single, facts_of_gap(analysis, row)
        self.facts.show_facts("The GPU is idle", facts)
        self._has_arguments = False
        self._arrange()
        self._side.hide()
        self._stack.setCurrentWidget(single)

    def show_area(self, area: Area | None) -> None:
        """Show the totals of an area; None goes back to the event."""
        self.ensure_built()
        self._area = area
        if area is None:
            if "single" in vars(self):
                self._stack.setCurrentWidget(self.single)
            self.refresh()
            return
        self.area.begin(area)
        self._stack.setCurrentWidget(self.area)
        self._fill_area()

    def _fill_area(self) -> None:
        trace, analysis, area = self.document.trace, self.document.analysis, self._area
        if trace is None or area is None:
            return
        by = self.area.by

        def work() -> tuple[Area, int, tuple[DeviceArea, ...], pd.DataFrame]:
            from viewer.statistics.area import area_table, devices_in, events_in

            events = events_in(trace, area.start, area.end, area.lanes)
            devices = devices_in(analysis, area.start, area.end, area.lanes) if analysis is not None else ()
            frame = area_table(trace, analysis, events, area.start, area.end, by)
            return area, len(events), devices, frame

        self.compute(work, lambda found: self.area.show_contents(*found))


def _as_text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value) if not isinstance(value, float) else f"{value:g}"
    return text if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + " ..."
