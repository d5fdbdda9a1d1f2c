"""Small copies one behind the other, with nothing launched in between: they could be one."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, Attribute, CopyKind
from parsers.model.events import of_kinds
from parsers.model.names.calls import Call
from rules.fixes.changes import copies, of_nodes
from rules.replay.replay import Replay

MAX_BYTES = 65_536  # of one copy: a larger one takes its time for its bytes
MIN_IN_A_ROW = 16


def copies_in_a_row(replay: Replay, kind: CopyKind) -> BOOL:
    """The calls behind the first of many small copies of a direction in a row, up to the last of them."""
    host = replay.host
    size = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    copied = of_nodes(replay, copies(replay, kind) & (size <= MAX_BYTES))
    if np.count_nonzero(copied) < MIN_IN_A_ROW:
        return np.zeros(len(host), bool)
    ends = of_kinds(host.call, Call.LAUNCH, Call.GRAPH_LAUNCH)
    ends |= of_nodes(replay, np.ones(len(replay.device), bool)) & ~copied
    ends |= np.append(True, (np.diff(host.thread) != 0) | (np.diff(host.step) != 0))
    row = np.cumsum(ends)
    many = np.bincount(row, copied)[row] >= MIN_IN_A_ROW
    place = np.arange(len(host))
    begin, end = np.full(int(row[-1]) + 1, len(host)), np.full(int(row[-1]) + 1, -1)
    np.minimum.at(begin, row[copied], place[copied])
    np.maximum.at(end, row[copied], place[copied])
    waits_for_last = host.call == Call.SYNCHRONIZE
    until = end[row] + np.where(waits_for_last, 1, 0)
    return np.asarray(many & (place > begin[row]) & (place <= until))
