"""The allocations tab: what a GPU's memory held at the peak or any other moment, and the allocator's segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QButtonGroup, QComboBox, QPushButton, QSplitter, QWidget

from parsers.model.units import duration, percent, size
from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, ElidedLabel, fill, horizontal, vertical
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView
from viewer.timeline.selection import Moment

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from rules.memory.summary import MemorySummary
    from viewer.panels.charts.segments import SegmentBars
    from viewer.query.explained import Behind
    from viewer.statistics.memory import MemoryRow, Segments

COLUMNS = (
    Column("what", "What"),
    Column("where", "Where it was made", sparse=True),
    Column("kind", "Kind", sparse=True, hint="What most of it is used for"),
    Column("blocks", "Blocks", Show.COUNT, "How many were held at this moment"),
    Column("size", "Size", Show.SIZE, "What they took at this moment"),
    Column("share", "Share", Show.SHARE, "Share of what was held at this moment", width=150),
)
GROUPS = ("kind", "module", "operator", "line", "stack", "size", "age")
GPUS = "GPU"
MIN_ABOUT_WIDTH = 90  # pixels for the words between the groupings and what stands at the right


@tab
class AllocationsPanel(Panel):
    """Needs a snapshot of the allocator, or a trace with memory; follows the moment that the document is at."""

    title = "Allocations"
    lacks = (
        "Memory was not recorded. Open a snapshot of PyTorch's allocator, or record with profile_memory=True."
    )
    order = 82

    def build(self) -> None:
        self._about = ElidedLabel("", "secondary", pixels=12, separator=", ")
        self.gpu = QComboBox()
        self.gpu.setAccessibleName("GPU")
        self.to_peak = QPushButton("At the peak")
        self.to_peak.setToolTip("The moment at which most was held (P); the next peak (Shift+P)")
        self.to_peak.clicked.connect(lambda: self.document.visit_peak())
        self.table = TableView(COLUMNS, "Allocations")
        self.table.chosen.connect(lambda _: self._mark_rows())
        self.tables = (self.table,)
        self.groupings = QButtonGroup(self)
        self.groupings.setExclusive(True)
        head = horizontal(margins=(14, 5, 10, 2), spacing=6)
        self._apart = QWidget()
        buttons = horizontal(self._apart, NO_MARGINS, 6)
        for name in (*GROUPS, GPUS):
            button = QPushButton(name)
            button.setCheckable(True)
            button.setAccessibleName(f"By {name}")
            self.groupings.addButton(button)
            buttons.addWidget(button)
        self._button(GROUPS[0]).setChecked(True)
        self.grouped = QComboBox()
        self.grouped.setAccessibleName("By what allocations are grouped")
        self.grouped.activated.connect(lambda _: self._button(self.grouped.currentText()).click())
        self.groupings.buttonToggled.connect(lambda *_: self.grouped.setCurrentText(self.grouping))
        fill(head, self._apart, self.grouped, (self._about, 1), self.to_peak, self.gpu)
        self._of_segments = ElidedLabel("", "secondary", pixels=12, separator=", ")
        self._room = vertical(margins=(8, 2, 8, 2))
        self._room.addWidget(self._of_segments)
        self._right = QWidget()
        self._right.setLayout(self._room)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(self.table)
        split.addWidget(self._right)
        split.setSizes([540, 460])
        split.setChildrenCollapsible(False)
        self.column.addLayout(head)
        self.column.addWidget(split, 1)
        self.bars: SegmentBars | None = None
        self._summaries: tuple[MemorySummary, ...] = ()
        self._rows: list[MemoryRow] = []
        self._segments: Segments | None = None
        self.gpu.activated.connect(lambda _: self._show_gpu())
        self.groupings.buttonClicked.connect(lambda _: self._fill_table())
        self.document.selection.moment_changed.connect(self._on_moment)
        theme.changed.connect(self.invalidate)
        self.table.installEventFilter(self)  # a table takes letters for the beginning of what is searched

    def has_data(self) -> bool:
        trace = self.document.trace
        return (
            trace is not None
            and any(each.tells_use or each.is_snapshot for each in trace.memory)
            and self.document.analysis is not None
        )

    def fit(self) -> None:
        """The groupings as buttons beside each other, or where there is not room as a list."""
        beside = sum(each.sizeHint().width() for each in (self.to_peak, self.gpu) if not each.isHidden())
        self._apart.setVisible(self._apart.sizeHint().width() + beside + MIN_ABOUT_WIDTH <= self.width())
        self.grouped.setHidden(not self._apart.isHidden())

    def _button(self, name: str) -> QPushButton:
        return next(each for each in self.groupings.buttons() if each.text() == name)  # type: ignore[return-value]

    @property
    def grouping(self) -> str:
        """By what the rows are told apart."""
        return next((each.text() for each in self.groupings.buttons() if each.isChecked()), GROUPS[0])

    @property
    def summary(self) -> MemorySummary | None:
        """The GPU of which the table speaks."""
        place = max(self.gpu.currentIndex(), 0)
        return self._summaries[place] if place < len(self._summaries) else None

    @property
    def when(self) -> int:
        """The moment of which the table speaks, ns: the peak until another one is chosen."""
        moment, summary = self.document.selection.moment, self.summary
        if moment is not None:
            return moment.when
        return summary.peak_at if summary is not None else 0

    def refresh(self) -> None:
        def work(analysis: Analysis) -> tuple[MemorySummary, ...]:
            from rules.memory.summary import memory_of

            found = [each for each in memory_of(analysis) if each.account is not None]
            return tuple(sorted(found, key=lambda each: -each.peak_allocated))

        self.compute_of(self.document.analysis, work, self._take)

    def _take(self, summaries: tuple[MemorySummary, ...]) -> None:
        if self.document.trace is None:
            return
        self._summaries = summaries
        names = [self._name(each) for each in summaries]
        if [self.gpu.itemText(index) for index in range(self.gpu.count())] != names:
            self.gpu.clear()
            self.gpu.addItems(names)
        self.gpu.setVisible(len(names) > 1)
        self._button(GPUS).setVisible(len(names) > 1)
        self._choose(self.document.selection.moment)
        self._show_gpu()

    def _name(self, summary: MemorySummary) -> str:
        assert self.document.trace is not None
        device = self.document.trace.devices[summary.device]
        return f"GPU {device.id}" if device.rank is None else f"GPU {device.id}, rank {device.rank}"

    def _choose(self, moment: Moment | None) -> None:
        places = [
            index for index, each in enumerate(self._summaries) if moment and each.device == moment.device
        ]
        if places:
            self.gpu.setCurrentIndex(places[0])

    def _on_moment(self, moment: Moment | None) -> None:
        if not self.isVisible():
            return
        before = self.gpu.currentIndex()
        self._choose(moment)
        if self.gpu.currentIndex() != before:
            self._show_gpu()
        else:
            self._fill_table()

    def _show_gpu(self) -> None:
        from viewer.statistics.memory import groupings_of, segments_of

        summary, trace = self.summary, self.document.trace
        if summary is None or summary.account is None or trace is None:
            return
        told = groupings_of(trace, summary.account)
        for name in GROUPS:
            self._button(name).setVisible(name in told)
        if self.grouping in GROUPS and self.grouping not in told:
            self._button(GROUPS[0]).setChecked(True)
        self.grouped.clear()
        self.grouped.addItems([each.text() for each in self.groupings.buttons() if not each.isHidden()])
        self.grouped.setCurrentText(self.grouping)
        self.fit()
        account = summary.account
        self._segments = segments_of(account)
        self._right.setVisible(self._segments is not None)
        if self._segments is not None:
            self._show_segments(self._segments)
        self._fill_table()

    def _show_segments(self, segments: Segments) -> None:
        from viewer.panels.charts.segments import SegmentBars

        if self.bars is None:
            self.bars = SegmentBars()
            self.bars.allocation_chosen.connect(self._tell_allocation)
            self._room.addWidget(self.bars, 1)
        self.bars.show_segments(segments)
        whole = int(segments.size.sum())
        holes = f"holes {size(segments.holes)}, largest {size(segments.largest_hole)}"
        self._of_segments.setText(
            f"At the end {size(whole)} in {len(segments.size):,} segments, "
            + (holes if segments.holes else "all of it used")
        )

    def _fill_table(self) -> None:
        summary, trace = self.summary, self.document.trace
        if summary is None or trace is None:
            return
        if self.grouping == GPUS:
            self._compare_gpus()
            return
        when, grouping = self.when, self.grouping

        def work() -> list[MemoryRow]:
            from viewer.statistics.memory import Grouping, rows_at

            return rows_at(trace, summary, when, Grouping(grouping))

        self.compute(work, self._show_rows)

    def _show_rows(self, rows: list[MemoryRow]) -> None:
        self._rows = rows
        summary, when = self.summary, self.when
        whole = summary.account.at(when) if summary is not None and summary.account is not None else 0
        at_peak = "at the peak" if summary is not None and when == summary.peak_at else "at this moment"
        self._about.setText(f"{size(whole)} {at_peak}, {duration(when)}")
        kinds = ["" if self.grouping == GROUPS[0] else row.kind.value for row in rows]
        self._fill(
            [
                (row.what, row.where, kind, row.blocks, row.size, row.size / max(whole, 1))
                for row, kind in zip(rows, kinds, strict=True)
            ]
        )
        if self.bars is not None:
            self.bars.mark(None)
        moment = self.document.selection.moment
        chosen = [index for index, row in enumerate(rows) if moment is not None and row.what == moment.kind]
        if chosen and self.grouping == GROUPS[0]:
            self.table.select_frame_row(chosen[0])
            self._mark_rows()

    def _compare_gpus(self) -> None:
        self._rows = []
        most = max((each.peak_allocated for each in self._summaries), default=1)
        rows = []
        for each in self._summaries:
            assert each.account is not None
            kinds = each.account.by_kind(each.peak_at)
            grows = f"{size(each.growth.per_step)} more after each step" if each.growth.per_step else ""
            blocks = int(each.account.alive(each.peak_at).sum())
            first = next(iter(kinds), None)
            rows.append(
                (
                    self._name(each),
                    grows,
                    first.value if first else "",
                    blocks,
                    each.peak_allocated,
                    each.peak_allocated / most,
                )
            )
        self._about.setText("Each GPU at its own peak; shares are of the fullest one")
        self._fill(rows)

    def _fill(self, rows: list[tuple[str, str, str, int, int, float]]) -> None:
        import pandas as pd

        self.table.set_frame(pd.DataFrame(rows, columns=["what", "where", "kind", "blocks", "size", "share"]))

    def behind(self, table: TableView, row: int) -> Behind | None:
        from viewer.query.explained import held_behind

        summary, trace = self.summary, self.document.trace
        if trace is None or summary is None or summary.account is None or row >= len(self._rows):
            return None
        return held_behind(trace, summary.account, self.when, self._rows[row])

    def _mark_rows(self) -> None:
        import numpy as np

        chosen = [self._rows[row].members for row in self.table.selected_rows() if row < len(self._rows)]
        if self.bars is not None:
            self.bars.mark(np.concatenate(chosen) if chosen else None)

    def _tell_allocation(self, number: int) -> None:
        """Say what a block of a segment is, when it was made, and where."""
        from parsers.model.memory import BEFORE
        from rules.memory.kinds import KINDS, own_frames
        from viewer.statistics.memory import place_of

        summary = self.summary
        if summary is None or summary.account is None:
            return
        memory, table = summary.account.memory, summary.account.memory.allocations
        stack, own = int(table.stack[number]), own_frames(memory)
        frame = memory.frames[int(own[stack])] if 0 <= stack < len(own) and own[stack] >= 0 else None
        start = int(table.start[number])
        made = "before recording" if start == BEFORE else f"at {duration(start)}"
        by = f" by {frame.function}, {place_of(frame)}" if frame is not None else ""
        part = percent(int(table.size[number]) / max(summary.account.at(self.when), 1))
        kind = KINDS[int(summary.account.kind[number])]
        self._about.setText(
            f"{size(int(table.size[number]))} of {kind} ({part}), made {made}{by}; never freed"
        )

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        return isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress and self._visited(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self._visited(event):
            super().keyPressEvent(event)

    def _visited(self, event: QKeyEvent) -> bool:
        """Go to the peak on P, to the next one on Shift+P; whether it was such a key."""
        shift = Qt.KeyboardModifier.ShiftModifier
        if event.key() != Qt.Key.Key_P or event.modifiers() & ~shift:
            return False
        self.document.visit_peak(following=bool(event.modifiers() & shift))
        return True
