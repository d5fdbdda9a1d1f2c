"""Charts as pictures: a budget, the lengths of steps before and after, where the time went, and a trend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model.arrays import F64
from parsers.model.units import duration
from rules.comparison.bridge import Bridge
from rules.verdict.verdict import TimeParts, share_of
from viewer.appearance import palette
from viewer.reports.pictures.drawing import INK, LETTER, Drawing
from viewer.reports.series_report import Point, spans

WIDTH = 940
BEFORE, AFTER = "#8b94a7", "#4c8dff"
BETTER, WORSE = "#2f9e6e", "#d64550"
MAX_BARS = 120
LEGEND_COLUMNS = 2


def budget_chart(time: TimeParts, ink: str = INK) -> str:
    """One bar for the whole, cut into its parts, and a line for each that has a percent or more."""
    parts = time.parts if time.whole_ns else []
    told = [part for part in parts if part[2] >= 0.01 * time.whole_ns]
    rows = -(-len(told) // LEGEND_COLUMNS)
    drawing = Drawing(WIDTH, 30 + rows * 18, "Where the time goes", ink)
    x = 0.0
    for key, label, ns in parts:
        width = WIDTH * ns / time.whole_ns
        tip = f"{label}: {duration(ns)}"
        drawing.box(x, 0, width, 24, palette.part(key), tip)
        drawing.text(x + 5, 16, f"{label} {share_of(ns, time.whole_ns)}", room=width - 8, color="#10131a")
        x += width
    for number, (key, label, ns) in enumerate(told):
        left, top = number % LEGEND_COLUMNS * WIDTH / LEGEND_COLUMNS, 34 + number // LEGEND_COLUMNS * 18
        drawing.box(left, top, 10, 10, palette.part(key))
        drawing.text(left + 15, top + 9, f"{share_of(ns, time.whole_ns)}  {duration(ns)}  {label}")
    return drawing.svg()


def steps_chart(before: F64, after: F64, ink: str = INK) -> str:
    """Each steady step of both sides as a bar, ns; dashed lines are the means."""
    sides = [_few(before), _few(after)]
    most = max((float(side.max()) for side in sides if len(side)), default=0.0)
    if not most:
        return ""
    height, left, gap = 120.0, 70.0, 30.0
    drawing = Drawing(WIDTH, height + 24, "Steps before and after", ink)
    room = (WIDTH - left - gap - 90) / max(sum(map(len, sides)), 1)
    x = left
    for side, whole, color, name in zip(
        sides, (before, after), (BEFORE, AFTER), ("before", "after"), strict=True
    ):
        begin = x
        for ns in side.tolist():
            tall = height * ns / most
            drawing.box(x, height - tall, max(room - 1, 0.5), tall, color, duration(ns))
            x += room
        if len(whole):
            level = height - height * float(whole.mean()) / most
            drawing.line(begin, level, x, level, dash="4 3")
            drawing.text(
                begin, height + 16, f"{name}: mean {duration(float(whole.mean()))}, {len(whole)} steps"
            )
        x = max(x, begin + 40 * LETTER) + gap if name == "before" else x
    drawing.text(left - 6, 10, duration(most), anchor="end", size=10)
    drawing.text(left - 6, height, "0", anchor="end", size=10)
    return drawing.svg()


def _few(steps: F64) -> F64:
    if len(steps) <= MAX_BARS:
        return steps
    edges = np.linspace(0, len(steps), MAX_BARS + 1).astype(np.int64)
    return np.asarray(np.maximum.reduceat(steps, edges[:-1]))


def bridge_chart(bridge: Bridge, ink: str = INK) -> str:
    """From the step before to the step after: what each part took away (green, -) or added (red, +)."""
    rows = [("before", bridge.before, 0.0), *((part.label, part.change, 1.0) for part in bridge.parts)]
    if abs(bridge.unexplained) >= 0.001 * max(bridge.before, bridge.after):
        rows.append(("not explained", bridge.unexplained, 1.0))
    rows.append(("after", bridge.after, 0.0))
    most, level = max(bridge.before, 1.0), bridge.before
    for _, change, is_change in rows[1:-1]:
        level += change * is_change
        most = max(most, level)
    left, right, row = 190.0, 110.0, 20.0
    scale = (WIDTH - left - right) / most
    drawing = Drawing(WIDTH, row * len(rows) + 4, f"Where the time went, by {bridge.title}", ink)
    level = 0.0
    for number, (label, value, is_change) in enumerate(rows):
        y = number * row + 3
        first, last = (level, level + value) if is_change else (0.0, value)
        color = BEFORE if not is_change else BETTER if value < 0 else WORSE
        drawing.text(left - 8, y + 11, label, anchor="end", room=left - 12)
        drawing.box(left + min(first, last) * scale, y, max(abs(last - first) * scale, 1), row - 6, color)
        sign = "" if not is_change else "+" if value > 0 else "-"
        drawing.text(left + max(first, last) * scale + 6, y + 11, f"{sign}{duration(abs(value))}")
        level = last
    return drawing.svg()


def trend_chart(points: Sequence[Point], ink: str = INK) -> str:
    """The mean step of each run with the interval of its ratio to the first; a note is marked."""
    known = [(point, span) for point, span in zip(points, spans(points), strict=True) if point.step_ns]
    if not known:
        return ""
    most = max(high for _, (_, high) in known) * 1.08
    height, left = 170.0, 70.0
    drawing = Drawing(WIDTH, height + 34, "Step time of each run", ink)
    room = (WIDTH - left - 20) / len(known)
    last: tuple[float, float] | None = None
    for at, (point, (low, high)) in enumerate(known):
        x, y = left + (at + 0.5) * room, height - height * point.step_ns / most
        drawing.line(x, height - height * low / most, x, height - height * high / most, color=AFTER)
        drawing.box(
            x - 3,
            y - 3,
            6,
            6,
            WORSE if point.note else AFTER,
            f"{point.name}: {duration(point.step_ns)} {point.note}",
        )
        if last is not None:
            drawing.line(*last, x, y, color=AFTER, dash="2 2")
        last = (x, y)
        drawing.text(x, y - 9, duration(point.step_ns), anchor="middle", room=room, size=10)
        drawing.text(x, height + 16, point.name, anchor="middle", room=room - 4, size=10)
        drawing.text(x, height + 29, point.note, anchor="middle", room=room - 4, size=10, color="#767d8c")
    drawing.line(left, height, WIDTH - 20, height, color="#8b94a7")
    drawing.text(left - 6, height, "0", anchor="end", size=10)
    return drawing.svg()
