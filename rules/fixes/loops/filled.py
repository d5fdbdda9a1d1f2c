"""How much of the GPU the work of one item fills, and so what is left of it when all items are done at once."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, Attribute
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay

START_NS = 1_500.0  # of a kernel's time is its start: one kernel for all items starts once


def joined(replay: Replay, gone: BOOL, filled: F64) -> Change:
    """These calls cost the CPU nothing and do not wait; their work takes what it fills of the GPU behind its start."""
    started = gone[replay.device.launch]

    def change(overlay: Overlay) -> None:
        overlay.gap[gone] = 0.0
        overlay.cost[gone] = 0.0
        overlay.waits[gone] = False
        overlay.duration[started] = np.maximum(overlay.duration[started] - START_NS, 0.0) * filled[started]

    return change


def joined_into(replay: Replay, first: BOOL, gone: BOOL, filled: F64) -> Change:
    """The same, but the work is done by the ``first`` calls, beside what the CPU does for them."""
    started, kept = gone[replay.device.launch], first[replay.device.launch]
    calls = joined(replay, gone, filled)

    def change(overlay: Overlay) -> None:
        calls(overlay)
        own = overlay.duration[kept & overlay.present].sum()
        if own > 0:
            overlay.duration[kept] *= 1.0 + overlay.duration[started & overlay.present].sum() / own
            overlay.duration[started] = 0.0

    return change


def filled(replay: Replay) -> F64:
    """The part of the multiprocessors that the blocks of each operation fill; 1 where it is not known."""
    trace, device = replay.analysis.trace, replay.device
    blocks = trace.attribute(Attribute.GRID, device.event)
    counts = [each.sm_count or 0 for each in trace.devices]
    room = np.array(counts)[np.maximum(trace.lane_device[trace.events.lane[device.event]], 0)]
    known = (blocks > 0) & (room > 0)
    return np.where(known, np.minimum(blocks / np.maximum(room, 1), 1.0), 1.0)
