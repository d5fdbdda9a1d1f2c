"""Who owns most of some work on the GPU: operators that the program calls, and its function or range around them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from parsers.model import BOOL, F64, I64, Trace
from parsers.model.arrays import distinct_values
from parsers.model.names.source_files import frame_parts
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.replay.origins import called_operators, calling_frames, calling_ranges
from rules.replay.replay import Replay
from rules.source_lines import line_of_frame
from rules.terms import MAJORITY, Culprit, CulpritKind, quoted
from rules.wording.words import listed, short_place, shortened

MAX_NAMED = 3  # that own most of the time together
MUCH = 0.1  # of the time: an operator that owns less is not told beside others
MAX_NAME = 40
_ATEN = "aten::"


def owners_of(analysis: Analysis, replay: Replay, operations: BOOL) -> str:
    """ "group_norm in forward (train.py:18)": what owns most of the time of these operations; "" where nothing does.

    Work of the backward pass is that of the operators whose gradients it computes.
    """
    ns = _ns(replay, operations)
    operators = _most(_by_name(analysis.trace, called_operators(analysis), ns), MAX_NAMED)
    told = listed([quoted(shortened(each.removeprefix(_ATEN), MAX_NAME)) for each in operators])
    return " in ".join(each for each in (told, place_of(analysis, ns)) if each)


def operators_behind(analysis: Analysis, replay: Replay, operations: BOOL) -> str:
    """ "“mul” (22 %) and “pow” (18 %), mostly in forward (train.py:18)": what these operations spend their time on.

    Empty where no operator is known that has a part worth telling.
    """
    ns = _ns(replay, operations)
    found = _by_name(analysis.trace, called_operators(analysis), ns)
    whole = max(sum(found.values()), 1.0)
    largest = sorted((each for each in found if each), key=lambda each: (-found[each], each))[:MAX_NAMED]
    told = listed(
        [
            f"{quoted(shortened(each.removeprefix(_ATEN), MAX_NAME))} ({percent(found[each] / whole)})"
            for each in largest
            if found[each] >= MUCH * whole
        ]
    )
    place = place_of(analysis, ns)
    return f"{told}, mostly in {place}" if told and place else told


def owner_of(analysis: Analysis, replay: Replay, operations: BOOL) -> Culprit | None:
    """The program's function, else its range, else the operator that owns most of the time of these operations."""
    ns = _ns(replay, operations)
    if (place := _place(analysis, ns)) is not None:
        return place
    operator = _most(_by_name(analysis.trace, called_operators(analysis), ns), 1)
    return Culprit(CulpritKind.OPERATOR, operator[0]) if operator else None


def place_of(analysis: Analysis, weight: F64) -> str:
    """ "forward (train.py:18)": the program's function, or else its range, that most of these calls belong to.

    ``weight`` is a value for each host node. Empty where none holds most of them.
    """
    place = _place(analysis, weight)
    if place is None or place.kind is CulpritKind.REGION:
        return quoted(shortened(place.name, MAX_NAME)) if place is not None else ""
    function, file, line = frame_parts(place.name)
    return f"{shortened(function, MAX_NAME)} ({short_place(file)}:{line})"


def _place(analysis: Analysis, weight: F64) -> Culprit | None:
    if frame := _most(_by_name(analysis.trace, calling_frames(analysis), weight), 1):
        return Culprit(CulpritKind.FRAME, frame[0], at=line_of_frame(frame[0], is_call=False))
    region = _most(_by_name(analysis.trace, calling_ranges(analysis), weight), 1)
    return Culprit(CulpritKind.REGION, region[0]) if region else None


def _ns(replay: Replay, operations: BOOL) -> F64:
    """For each host node how long those of these operations take that it launches."""
    device = replay.device
    ns = np.zeros(len(replay.host))
    np.add.at(ns, device.launch[operations], device.duration[operations])
    return ns


def _by_name(trace: Trace, events: I64, ns: F64) -> dict[str, float]:
    """How much of the time at each host node (ns) belongs to each name of the events there; "" is of none."""
    found: dict[str, float] = {}
    mine = np.flatnonzero(ns)
    names = np.where(events[mine] >= 0, trace.events.name[np.maximum(events[mine], 0)], -1)
    for name in distinct_values(names).tolist():
        found[trace.strings[name] if name >= 0 else ""] = float(ns[mine][names == name].sum())
    return found


def _most(found: Mapping[str, float], most: int) -> list[str]:
    """The names, the largest first, that own most of the time together; none where so few do not."""
    whole = sum(found.values())
    largest = [each for each in sorted(found, key=lambda each: (-found[each], each)) if each][:most]
    largest = [each for place, each in enumerate(largest) if not place or found[each] >= MUCH * whole]
    for count in range(1, len(largest) + 1):
        if sum(found[each] for each in largest[:count]) >= MAJORITY * whole:
            return largest[:count]
    return []
