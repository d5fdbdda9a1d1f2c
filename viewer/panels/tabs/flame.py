"""The flame tab: an icicle graph of the selected area, or of the step, with equal calls added up."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox, QPushButton

from parsers.model import LaneKind, Trace
from parsers.model.units import duration
from viewer.appearance.key_names import key_names
from viewer.appearance.widgets import ElidedLabel, fill, horizontal, scrolling
from viewer.panels.charts.icicle import IcicleView
from viewer.panels.panel import Panel, tab
from viewer.statistics.call_tree import ROOT, CallTree, call_tree, ran
from viewer.timeline.geometry.drawing_index import drawing_index
from viewer.timeline.kinds.base import nested_styles
from viewer.timeline.scene import EventColors, joined


@tab
class FlamePanel(Panel):
    """Follows the selected area and its lanes, else the selected step; every CPU thread counts."""

    title = "Flame"
    lacks = "Nothing nested was recorded. Record regions, operators or stacks (with_stack=True)."
    order = 40
    follows_step = True

    def build(self) -> None:
        self.view = IcicleView()
        self.view.chosen.connect(self.document.show_event)
        self.view.focused.connect(self._say)
        self.kind = QComboBox()
        self.kind.setAccessibleName("What to measure")
        self.kind.currentIndexChanged.connect(lambda _: self.refresh())
        self._text = ElidedLabel("", "secondary", pixels=12)
        everything = QPushButton("Show all")
        everything.clicked.connect(lambda: self.view.focus_on(ROOT))
        top = fill(horizontal(margins=(14, 5, 10, 4), spacing=8), (self._text, 1), everything, self.kind)
        scroll = scrolling(self.view, sideways=True)
        self.column.addLayout(top)
        self.column.addWidget(scroll, 1)
        self.document.area_changed.connect(self.invalidate)

    def _lanes(self, kind: LaneKind) -> list[int]:
        trace = self.document.trace
        lanes = (
            [] if trace is None else [index for index, lane in enumerate(trace.lanes) if lane.kind is kind]
        )
        area = self.document.area
        return [lane for lane in lanes if area is None or not area.lanes or lane in area.lanes]

    def _choices(self) -> dict[str, list[int]]:
        """The lanes with calls inside calls, by how they are spoken of."""
        found = {nested.all: self._lanes(style.kind) for style, nested in nested_styles()}
        return {name: lanes for name, lanes in found.items() if lanes}

    def has_data(self) -> bool:
        trace = self.document.trace
        nested = {style.kind for style, _ in nested_styles()}
        return trace is not None and any(lane.kind in nested for lane in trace.lanes)

    def refresh(self) -> None:
        trace, area = self.document.trace, self.document.area
        if trace is None:
            return
        choices = self._choices()
        names = list(choices)
        t0, t1 = (area.start, area.end) if area is not None else self.document.window
        if [self.kind.itemText(index) for index in range(self.kind.count())] != names:
            blocked = self.kind.blockSignals(True)
            self.kind.clear()
            self.kind.addItems(names)
            self.kind.setCurrentText(next((name for name in names if ran(trace, choices[name], t0, t1)), ""))
            self.kind.blockSignals(blocked)
        lanes = choices.get(self.kind.currentText(), [])
        analysis = self.document.analysis

        def work() -> tuple[Trace, CallTree, EventColors]:
            blamed = joined(analysis).blamed if analysis is not None else {}
            colors = EventColors(trace, drawing_index(trace), blamed=blamed)
            return trace, call_tree(trace, lanes, t0, t1), colors

        self.compute(work, self._show)

    def _show(self, result: tuple[Trace, CallTree, EventColors]) -> None:
        self.view.show_tree(*result)

    def _say(self, node: int) -> None:
        tree = self.view.tree
        if tree is None or not len(tree):
            area = self.document.area
            on_lanes = area is not None and bool(area.lanes) and not self._choices()
            self._text.setText(
                "The selected lanes contain no nested calls." if on_lanes else "Nothing ran here."
            )
        elif node == ROOT:
            self._text.setText(
                f"{duration(tree.whole)} in total. "
                + key_names("Click a call to zoom in, Ctrl-click to go to its longest occurrence.")
            )
        else:
            self._text.setText(self.view.describe(node))
