"""Who owns most of some work on the GPU: operators that the program calls, and its function or range around them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from parsers.model import BOOL, F64, I64, Trace
from parsers.model.names.source_files import frame_parts
from rules.analysis.analysis import Analysis
from rules.replay.origins import called_operators, calling_frames, calling_ranges
from rules.replay.replay import Replay
from rules.terms.culprit import quoted
from rules.wording.phrases import listed, short_place, shortened

MOSTLY = 0.5  # of the time: what owns less is not told
MAX_OPERATORS = 3  # that own as much together
MUCH = 0.1  # of the time: an operator that owns less is not told beside others
MAX_NAME = 40
_ATEN = "aten::"


def owners_of(analysis: Analysis, replay: Replay, operations: BOOL) -> str:
    """ "group_norm in forward (train.py:18)": what owns most of the time of these operations; "" where nothing does.

    Work of the backward pass is that of the operators whose gradients it computes.
    """
    device, trace = replay.device, analysis.trace
    node = device.launch[operations]
    ns = np.zeros(len(replay.host))
    np.add.at(ns, node, device.duration[operations])
    operators = _most(_by_name(trace, called_operators(analysis), ns), MAX_OPERATORS)
    told = listed([quoted(shortened(each.removeprefix(_ATEN), MAX_NAME)) for each in operators])
    return " in ".join(each for each in (told, place_of(analysis, ns)) if each)


def place_of(analysis: Analysis, weight: F64) -> str:
    """ "forward (train.py:18)": the program's function, or else its range, that most of these calls belong to.

    ``weight`` is a value for each host node. Empty where none holds most of them.
    """
    if frame := _most(_by_name(analysis.trace, calling_frames(analysis), weight), 1):
        function, file, line = frame_parts(frame[0])
        return f"{shortened(function, MAX_NAME)} ({short_place(file)}:{line})"
    region = _most(_by_name(analysis.trace, calling_ranges(analysis), weight), 1)
    return quoted(shortened(region[0], MAX_NAME)) if region else ""


def _by_name(trace: Trace, events: I64, ns: F64) -> dict[str, float]:
    """How much of the time at each host node (ns) belongs to each name of the events there; "" is of none."""
    found: dict[str, float] = {}
    mine = np.flatnonzero(ns)
    names = np.where(events[mine] >= 0, trace.events.name[np.maximum(events[mine], 0)], -1)
    for name in np.unique(names).tolist():
        found[trace.strings[name] if name >= 0 else ""] = float(ns[mine][names == name].sum())
    return found


def _most(found: Mapping[str, float], most: int) -> list[str]:
    """The names, the largest first, that own most of the time together; none where so few do not."""
    whole = sum(found.values())
    largest = [each for each in sorted(found, key=lambda each: (-found[each], each)) if each][:most]
    largest = [each for place, each in enumerate(largest) if not place or found[each] >= MUCH * whole]
    for count in range(1, len(largest) + 1):
        if sum(found[each] for each in largest[:count]) >= MOSTLY * whole:
            return largest[:count]
    return []
