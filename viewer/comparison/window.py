"""The window that compares two recordings: verdict, twin timelines, bridge, and tables of what changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QKeySequence, QMouseEvent, QShortcut
from PySide6.QtWidgets import QMenu, QMenuBar, QSplitter, QWidget

from parsers.model import SYSTEM_ERRORS, Progress, Trace, TraceError, refused_by_system
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, how_many, percent, three_digits
from rules.comparison.bridge import KINDS, REGIONS, BridgePart
from rules.comparison.matched_steps import MatchedSteps, matched_steps
from viewer.appearance.home_focus import HomeFocus
from viewer.appearance.tab_order import TabOrder
from viewer.appearance.widgets import (
    NO_MARGINS,
    ElidedLabel,
    HorizontalLine,
    fill,
    horizontal,
    resize_within_screen,
    vertical,
)
from viewer.comparison.bridge_chart import BridgePanel
from viewer.comparison.comparing import Compared, compared, rank_pairs
from viewer.comparison.controls import ControlBar, PageButtons, keys_of, menu_bar, title_of
from viewer.comparison.details import Details
from viewer.comparison.tables import about, step_names
from viewer.comparison.twins import TwinTimelines
from viewer.comparison.verdict_head import VerdictHead
from viewer.desktop.jobs import Jobs
from viewer.documents.document import Document

if TYPE_CHECKING:
    from rules.analysis.steps.steps import Step
    from rules.comparison.compare import Comparison
    from rules.comparison.findings import FindingChange
    from rules.comparison.side import Side
    from rules.findings.base import Evidence
    from rules.terms import Thresholds
    from viewer.panels.kernel.kernel_pair import KernelPair

FIRST_SIZE = (1600, 960)
BRIDGE_WIDTH = 400
UPPER = 0.58  # of the height
MIN_STRETCH = 0.005
COMPARING, MATCHING = "compare", "match"


def compare_with(document: Document, paths: Sequence[Path], parent: QWidget) -> ComparisonWindow | None:
    """Show the open recording, which came before, and read the other one beside it; None where nothing is open."""
    if document.trace is None:
        return None
    window = ComparisonWindow(document.trace, document.thresholds, parent)
    window.failed.connect(document.failed)
    window.keys_wanted.connect(document.keys_wanted)
    if document.analysis is not None:
        window.twins.views[0].set_analysis(document.analysis)
    if document.selected_event >= 0:
        window.details.wanted = document.trace.name(document.selected_event)
    window.show()
    window.read(paths)
    return window


class ComparisonWindow(QWidget):
    """Stays open beside the window it was opened from; a file dropped on it takes the place of the second one."""

    failed = Signal(str, str)
    shown = Signal()  # the result is there
    keys_wanted = Signal(object, object)  # its menus with their keys, and itself

    def __init__(self, before: Trace, thresholds: Thresholds, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setAcceptDrops(True)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumSize(960, 600)
        resize_within_screen(self, *FIRST_SIZE)
        self.jobs = Jobs(self)
        self.traces: tuple[Trace, Trace | None] = before, None
        self.result: Comparison | None = None
        self.steps: MatchedSteps | None = None
        self._thresholds = thresholds
        self._reading: object = None
        self._ranks: list[int | None] = []
        self.pair: KernelPair | None = None
        self.head = VerdictHead()
        self.bar = ControlBar()
        self.twins = TwinTimelines()
        self.bridge = BridgePanel()
        self.bridge.setMinimumWidth(360)
        self.details = Details()
        self.foot = ElidedLabel("", "secondary", pixels=12)
        self.buttons = PageButtons()
        self._put_together()
        self.tab_order = TabOrder(self)
        self.home = HomeFocus(self, self.twins.home)
        self._connect()
        self.twins.show_trace(0, before)
        self._say_sides()

    def _put_together(self) -> None:
        left = QWidget()
        fill(vertical(left, NO_MARGINS, 0), self.bar, HorizontalLine(), (self.twins, 1))
        self._upper = QSplitter(Qt.Orientation.Horizontal)
        self._upper.addWidget(left)
        self._upper.addWidget(self.bridge)
        self._upper.setStretchFactor(0, 1)
        self._upper.setChildrenCollapsible(False)
        self._upper.setSizes([max(self.width() - BRIDGE_WIDTH, 600), BRIDGE_WIDTH])
        self._split = QSplitter(Qt.Orientation.Vertical)
        self._split.addWidget(self._upper)
        self._split.addWidget(self.details)
        for index, share in enumerate((UPPER, 1 - UPPER)):
            self._split.setStretchFactor(index, round(100 * share))
        self._split.setChildrenCollapsible(False)
        self.details.setCornerWidget(self.buttons, Qt.Corner.TopRightCorner)
        layout = vertical(self, NO_MARGINS, 0)
        layout.setMenuBar(self._menus())
        fill(layout, self.head, HorizontalLine(), (self._split, 1), HorizontalLine())
        self.foot.setContentsMargins(14, 0, 14, 0)
        line = horizontal(margins=(14, 3, 14, 4))
        line.addWidget(self.foot)
        layout.addLayout(line)
        upper = round(self.height() * UPPER)
        self._split.setSizes([upper, self.height() - upper])

    def _menus(self) -> QMenuBar:
        bar, buttons = self.bar, self.buttons
        return menu_bar(
            self,
            {
                "File": (
                    ("Export page ...", "Ctrl+Shift+E", buttons.export),
                    ("Copy as text", "Ctrl+Shift+C", buttons.copy),
                    ("Close", "Ctrl+W", self.close),
                ),
                "View": (
                    ("Link both timelines", "Shift+L", bar.link),
                    ("Same scale or same length", "T", bar.toggle_length),
                    ("All lanes", "", bar.lanes),
                    ("Swap before and after", "X", buttons.swap),
                ),
                "Help": (("Keyboard and mouse", "?", self._ask_for_keys),),
            },
        )

    def _connect(self) -> None:
        bar, twins = self.bar, self.twins
        bar.anchor_chosen.connect(twins.align)
        bar.steps_chosen.connect(self._choose_steps)
        bar.rank_chosen.connect(self._choose_rank)
        bar.length_chosen.connect(self._set_same_length)
        bar.linked.connect(twins.set_linked)
        bar.all_lanes.connect(twins.set_all_lanes)
        self.bridge.chosen.connect(self._show_part)
        self.details.row_chosen.connect(self._show_row)
        self.details.finding_chosen.connect(self._show_finding)
        self.jobs.progressed.connect(self._on_progress)
        self.buttons.told.connect(self.foot.setText)
        self.buttons.swap.clicked.connect(self.swap_sides)
        twins.event_selected.connect(self._on_event)
        leave = QShortcut(QKeySequence("Escape"), self)
        leave.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        leave.activated.connect(self.leave)

    # Reading and comparing

    def read(self, paths: Sequence[Path]) -> None:
        """Read the second recording, compare, and show both; the first one can be looked at meanwhile."""
        names = paths[0].name + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        self.head.wait(f"Reading {names}; you can keep using the previous recording")
        self.twins.show_trace(1, None, f"Reading {names} ...")
        self.traces = self.traces[0], None
        self._reading = reading = object()
        before, thresholds = self.traces[0], self._thresholds
        show = self.jobs.on_gui_thread(self._on_read)

        def work(progress: Progress) -> Compared:
            from viewer.loading.loader import opened

            part = progress.part(0.0, 0.7)
            read = opened(paths, part, lambda _: None, thresholds)
            if read.process is not None:
                read.process.close()
            after = read.trace
            show(reading, after)
            progress.step(0.7, "comparing")
            return compared(before, after, thresholds)

        self._ask(work)

    def swap_sides(self) -> None:
        before, after = self.traces
        if after is None or self.result is None or self.jobs.is_running(COMPARING):
            return
        thresholds = self._thresholds
        self.head.wait("Comparing in the other direction ...")

        def work(progress: Progress) -> Compared:
            progress.step(0.0, "comparing")
            return compared(after, before, thresholds)

        def answer(found: Compared) -> None:  # until then names, times and timelines stay beside one another
            self.traces = after, before
            for side, trace in enumerate(self.traces):
                self.twins.show_trace(side, trace)
            self._show(found)

        self._ask(work, answer)

    def _ask(
        self, work: Callable[[Progress], Compared], answer: Callable[[Compared], None] | None = None
    ) -> None:
        self.jobs.ask(COMPARING, work, answer or self._show, self._on_failure)

    def _on_read(self, reading: object, after: Trace) -> None:
        if reading is self._reading:
            self.traces = self.traces[0], after
            self.head.wait("Comparing ...")
            self.twins.show_trace(1, after)
            self._say_sides()

    def _on_progress(self, slot: str, share: float, doing: str) -> None:
        if slot == COMPARING and self.traces[1] is None:
            self.twins.views[1].canvas.message = f"{doing} ... {percent(share)}"
            self.twins.views[1].canvas.update()

    def _on_failure(self, error: Exception) -> None:
        if isinstance(error, SYSTEM_ERRORS):
            error = refused_by_system(error, Path())
        if not isinstance(error, TraceError):
            raise error
        self.failed.emit(error.problem, error.hint)
        self.close()

    def _show(self, found: Compared) -> None:
        result = self.result = found.result
        self.head.show_result(result)
        self.buttons.show_result(result)
        has_timelines = result.sides is not None and found.steps is not None
        self._upper.setVisible(has_timelines)
        if not has_timelines:
            self._show_profiles(result)
        self.details.show_result(result, found.rows, found.tables)
        if result.sides is not None and found.steps is not None:
            with_gpu = any(side.gpus for side in result.sides)
            self.bridge.show_bridges(result.bridges, KINDS if with_gpu else REGIONS)
            self._offer_ranks(result.sides)
            self._show_steps(found.steps)
        self._say_sides()
        self.twins.views[0].setFocus(Qt.FocusReason.OtherFocusReason)
        self.shown.emit()

    def _show_profiles(self, result: Comparison) -> None:
        """Without timelines: the kernels that both reports hold, one pair at a time."""
        from viewer.panels.kernel.kernel_pair import KernelPair

        if self.pair is None and result.profiles:
            self.pair = KernelPair()
            self._split.insertWidget(0, self.pair)
            self._split.setSizes([round(self.height() * UPPER), 0, round(self.height() * (1 - UPPER))])
        self._show_pair(0)

    def _show_pair(self, row: int) -> None:
        """The pair behind a row of kernels, where both were profiled."""
        if self.pair is None or self.result is None:
            return
        names = {each.name for each in self.result.kernels[row : row + 1]}
        chosen = [each for each in self.result.profiles if each.before.name in names] or self.result.profiles
        if chosen:
            self.pair.show_pair(chosen[0].before, chosen[0].after)

    # Steps and ranks

    def _offer_ranks(self, sides: tuple[Side, Side]) -> None:

        pairs = rank_pairs(*sides)
        self._ranks = [rank for rank, _ in pairs]
        self.bar.offer_ranks([told for _, told in pairs])

    def _choose_rank(self, place: int) -> None:
        assert self.result is not None
        assert self.result.sides is not None
        rank = self._ranks[place]
        sides = self.result.sides
        self._match((sides[0].typical_of(rank), sides[1].typical_of(rank)))

    def _choose_steps(self, before: int, after: int) -> None:
        assert self.result is not None
        assert self.result.sides is not None

        chosen = []
        for side, steps, place in zip(self.result.sides, self._shown_steps(), (before, after), strict=True):
            names = step_names(side, steps.rank if steps is not None else None)
            chosen.append(names[place][1] if 0 <= place < len(names) else steps)
        self._match((chosen[0], chosen[1]))

    def _shown_steps(self) -> tuple[Step | None, Step | None]:
        assert self.steps is not None
        return self.steps.steps

    def _match(self, steps: tuple[Step | None, Step | None]) -> None:
        assert self.result is not None
        assert self.result.sides is not None
        sides = self.result.sides

        def work(progress: Progress) -> MatchedSteps:

            progress.step(0.0, "matching")
            return matched_steps(sides, steps)

        self.jobs.ask(MATCHING, work, self._show_steps)

    def _show_steps(self, steps: MatchedSteps) -> None:

        assert self.result is not None
        assert self.result.sides is not None
        self.steps = steps
        self.twins.show_steps(self.result.sides, steps)
        for number, (side, step) in enumerate(zip(self.result.sides, steps.steps, strict=True)):
            names = step_names(side, step.rank if step is not None else None)
            shown = next((name for name, each in names if each is step), "")
            self.bar.offer_steps(number, [name for name, _ in names] or ["all of it"], shown)
        self.bar.offer_anchors(self.twins.anchors, self.twins.aligned_at)
        self.details.show_kernels(steps.rows.rows)
        self._say_figures()

    def _set_same_length(self, same: bool) -> None:
        self.twins.set_same_length(same)
        self._say_figures()

    def _say_figures(self) -> None:
        """The step times, and what is drawn longer than it was: nobody may take a stretched run for a slow one."""
        if (result := self.result) is None:
            return
        stretch = self.twins.alignment.stretch
        for number, header in enumerate(self.twins.headers):
            ns = (result.step.before, result.step.after)[number]
            drawn = 1 / stretch if number else stretch
            told = f", drawn {three_digits(drawn)} times longer" if drawn > 1 + MIN_STRETCH else ""
            header.figure.setText(f"{duration(ns)}{' a step' if result.by_step else ' analysed'}{told}")

    # What a click shows

    def _show_part(self, title: str, part: BridgePart) -> None:
        from viewer.comparison.places import places_of_part

        if self.steps is not None and self.result is not None and self.result.sides is not None:
            self._mark(places_of_part(title, part, self.steps, self.result.sides))

    def _show_row(self, row: int) -> None:
        self._show_pair(row)
        from viewer.comparison.places import places_of_row

        if self.steps is not None and self.result is not None and self.result.sides is not None:
            self._mark(places_of_row(self.steps, self.result.sides, row))

    def _show_finding(self, change: FindingChange) -> None:
        places = [list(each.evidence) if each is not None else [] for each in (change.before, change.after)]
        self._mark((places[0], places[1]))

    def _mark(self, places: tuple[list[Evidence], list[Evidence]]) -> None:
        for view in self.twins.views:
            view.state.selection.select_event(-1)
        self.twins.highlight(places)
        said = [how_many(len(each), "place") for each in places]
        self.foot.setText(f"marked: {said[0]} before, {said[1]} after (Esc clears the marks)")

    def leave(self) -> None:
        """Back to the timelines, then without marks; never away, as Escape is pressed once too often."""
        if self.home.is_elsewhere:
            self.home.go()
        else:
            self.twins.clear()

    def _ask_for_keys(self) -> None:
        self.keys_wanted.emit(keys_of(self.findChildren(QMenu)), self)

    def _on_event(self, side: int, event: int) -> None:
        trace = self.traces[side]
        if event < 0 or trace is None:
            self._say_sides()
            return
        other = self.twins.views[1 - side].state.selected
        name = kernel_name(trace.name(event))
        ns = duration(float(trace.events.duration[event]))
        text = f"{('before', 'after')[side]}: {name}, {ns}"
        beside = self.traces[1 - side]
        if other >= 0 and beside is not None:
            text += (
                f" · {('before', 'after')[1 - side]}: {kernel_name(beside.name(other))}, "
                f"{duration(float(beside.events.duration[other]))}"
            )
        else:
            text += " · no counterpart in the step that is shown"
        self.foot.setText(text)

    def _say_sides(self) -> None:

        for header, trace in zip(self.twins.headers, self.traces, strict=True):
            header.about.setText(about(trace) if trace is not None else "")
        self.setWindowTitle(title_of(*self.traces))
        self._say_figures()
        events = [f"{len(trace.events):,}" for trace in self.traces if trace is not None]
        producers = dict.fromkeys(
            each.producer for trace in self.traces if trace is not None for each in trace.inputs
        )
        self.foot.setText(
            f"{how_many(len(events), 'recording')} · {', '.join(producers)} · {' + '.join(events)} events"
        )

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.home.go()
        super().mousePressEvent(event)

    def focusNextPrevChild(self, forward: bool) -> bool:
        return self.tab_order.step((self.bar, self.twins, self.bridge, self.details), forward)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
        if paths:
            self.read(paths)

    def closeEvent(self, event: QCloseEvent) -> None:
        self.jobs.close()
        super().closeEvent(event)
