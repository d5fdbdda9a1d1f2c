"""Going through the recording with the keyboard: along a row, up and down between rows, from step to step."""

from __future__ import annotations

from itertools import islice

import numpy as np

from viewer.timeline.geometry.layout import Layout
from viewer.timeline.geometry.row_index import event_at, neighbour
from viewer.timeline.state import TimelineState

MAX_ON_A_SCREEN = 60  # lanes
Rows = list[tuple[int, int]]


def visible_rows(layout: Layout) -> Rows:
    """(lane, depth) of every row on the screen or scrolled off it, from top to bottom; calls after their operators."""
    rows: Rows = []
    for each in (*layout.pinned, *layout.scrolled):
        rows += [(each.track.lane, row.depth) for row in each.rows if each.track.lane >= 0]
        rows += [(each.track.calls, 0)] if each.track.calls >= 0 and each.rows else []
    return rows


def along(state: TimelineState, step: int) -> int:
    """The next (+1) or previous (-1) event of the selected one's row; the first or last visible one of the first stream
    where nothing is selected; -1 where there is none."""
    scene = state.scene
    if scene is None:
        return -1
    if state.selected >= 0:
        return neighbour(scene.trace.events, state.selected, step)
    placed = (*state.layout.pinned, *state.layout.scrolled)
    lanes = [each.track.lane for each in placed if each.track.is_gpu_lane] or [
        each.track.lane for each in placed if each.track.lane >= 0
    ]
    for lane in lanes:
        part = scene.trace.events.window(lane, 0, round(state.scale.t0), round(state.scale.t1))
        if part.stop > part.start:
            return int(part.start if step > 0 else part.stop - 1)
    return -1


def linked(state: TimelineState) -> int:
    """What launched the selected event, or the first operation that it launched; -1 where nothing is known of that."""
    if state.scene is None or state.selected < 0:
        return -1
    links = state.scene.trace.links
    launch = int(links.launch_of(np.array([state.selected], np.int64))[0])
    if launch >= 0:
        return launch
    started = links.operations_of(state.selected)
    return int(started[0]) if len(started) else -1


def across(state: TimelineState, step: int) -> int:
    """The event nearest in time on the next row below (+1) or above (-1) that has one in view; the selected one where
    there is none."""
    scene = state.scene
    if scene is None or state.selected < 0:
        return along(state, 1)
    events = scene.trace.events
    rows = visible_rows(state.layout)
    here = int(events.lane[state.selected]), int(events.depth[state.selected])
    if here not in rows:
        return state.selected
    start = max(float(events.start[state.selected]), state.scale.t0)
    end = min(float(events.end[state.selected]), state.scale.t1)
    middle = (start + end) / 2
    following = rows[rows.index(here) + 1 :] if step > 0 else rows[: rows.index(here)][::-1]
    for lane, depth in following:
        found = event_at(events, lane, depth, middle, state.scale.span / 2)
        if found >= 0:
            return found
    return state.selected


def step_beside(state: TimelineState, direction: int) -> int:
    """The step of the rank in focus after (+1) or before (-1) the middle of the view; -1 where there is none."""
    middle = (state.target.t0 + state.target.t1) / 2
    if direction > 0:
        return next((index for index, step in state.shown_steps if step.start > middle), -1)
    return next((index for index, step in reversed(state.shown_steps) if step.end < middle), -1)


def lanes_of_device(layout: Layout, device: int) -> list[int]:
    """The lanes of a device that are not hidden, the most important last, and no more than a screen may hold."""
    placed = (*layout.pinned, *layout.scrolled)
    lanes = (each.track.lane for each in placed if each.track.device == device and each.track.lane >= 0)
    return list(islice(lanes, MAX_ON_A_SCREEN))[::-1]
