"""What the window that compares two recordings shows, and where its parts are, for somebody who looks from outside."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QWidget

from viewer.comparison.window import ComparisonWindow
from viewer.timeline.names_column import NAMES_WIDTH


def comparison(window: QWidget) -> dict[str, Any]:
    """Both sides of the comparison beside a window; nothing before it is there."""
    found = [each for each in window.findChildren(ComparisonWindow) if each.isVisible() and each.steps]
    if not found:
        return {}
    (shown,) = found
    views = shown.twins.views
    return {
        "sentence": shown.head.sentence.text(),
        "working": shown.jobs.busy or any(view.state.flying for view in views),
        "views": [list(view.visible_interval) for view in views],
        "selected": [view.state.selected for view in views],
        "marked": [len(view.state.evidence) for view in views],
        "longest_pair": _longest_pair(shown),
    }


def places(window: QWidget) -> dict[str, tuple[QWidget, QRect]]:
    """The GPU lanes of both sides, and the bars of the bridge."""
    found: dict[str, tuple[QWidget, QRect]] = {}
    for shown in window.findChildren(ComparisonWindow):
        if not shown.isVisible():
            continue
        for name, view in zip(("before", "after"), shown.twins.views, strict=True):
            for placed in view.canvas.shown():
                if placed.placed.track.is_gpu_lane and placed.placed.rows:
                    row = placed.placed.rows[0]
                    corner = QPoint(NAMES_WIDTH, placed.top + row.top)
                    rows = QRect(corner, QPoint(view.canvas.width() - 1, corner.y() + row.height))
                    found.setdefault(name, (view.canvas, rows))
        chart = shown.bridge.chart
        for number, bar in enumerate(chart.rows):
            found[f"bar {bar.label}"] = chart, chart.box(number).toRect()
    return found


def _longest_pair(shown: ComparisonWindow) -> list[list[int]]:
    """Event, start and end on both sides of the longest kernel that has a counterpart."""
    assert shown.steps is not None
    pairs, calls = shown.steps.pairs.counterpart, shown.steps.calls
    pair = pairs[calls[0].ns[pairs[:, 0]].argmax()].tolist()
    events = [int(side.event[place]) for side, place in zip(calls, pair, strict=True)]
    traces = [trace for trace in shown.traces if trace is not None]
    return [
        [event, int(trace.events.start[event]), int(trace.events.end[event])]
        for event, trace in zip(events, traces, strict=True)
    ]
