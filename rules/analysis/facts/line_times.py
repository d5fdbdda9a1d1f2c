"""How long each line of a source file was running, by the frames of a recording with stacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from parsers.model import EventKind
from parsers.model.derived import derived_by
from parsers.model.names.source_files import frame_parts
from rules.analysis.arithmetic.intervals import clip, length, union

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis

FRAMES = (EventKind.PYTHON, EventKind.SAMPLED_FRAME)


@derived_by
def line_shares(analysis: Analysis, file: str) -> Mapping[int, float]:
    """Line -> share (0 to 1) of the analysed time in which a thread was there, or in what was called from there.

    A recorder that states where a function begins, not which of its lines was running, gives the time of the whole
    function at its first line. Empty for a file of which there are no frames.
    """
    trace, table = analysis.trace, analysis.trace.events
    t0, t1 = analysis.window
    events = table.of_kind(*FRAMES)
    line_of_name = np.zeros(len(trace.strings), np.int64)
    for name in np.unique(table.name[events]).tolist():
        _, its_file, line = frame_parts(trace.strings[name])
        line_of_name[name] = line if its_file == file else 0
    lines = line_of_name[table.name[events]]
    shares = {}
    for line in np.unique(lines[lines > 0]).tolist():
        there = events[lines == line]
        running = clip(union(table.start[there], table.end[there]), t0, t1)
        shares[line] = length(running) / max(t1 - t0, 1)
    return shares
