"""GPU operations whose end cannot be right: they run on over many later operations of their own stream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parsers.chrome.build.quarantine import Table
from parsers.model import BOOL, GPU_WORK, Effect, QualityRecorder
from parsers.model.arrays import stable_order
from parsers.model.events import of_kinds
from parsers.model.units import duration as duration_text

MIN_OVERRUN = 8  # later operations of the stream that begin before the end
MIN_TIMES_LONGER = 100  # than the time to the next operation


def clip_overruns(
    table: Table, in_graph: Callable[[], BOOL], strings: list[str], quality: QualityRecorder
) -> None:
    """Shorten such operations in place to the start of the next one; the record states both durations.

    Operations of one stream run in order; only a neighbour may overlap (programmatic dependent launch). The branches
    of a CUDA graph may run side by side under one stream number, so they are left alone;
    which operations are ``in_graph`` is only asked where it matters.
    """
    start, duration, track = table.start, table.duration, table.track
    work = np.flatnonzero(of_kinds(table.kind, *GPU_WORK))
    if len(work) <= MIN_OVERRUN:
        return
    if (order := stable_order(start[work], track[work])) is not None:
        work = work[order]
    begin, its_track = start[work], track[work]
    last = np.flatnonzero(np.append(its_track[1:] != its_track[:-1], True))
    last_of = last[np.searchsorted(last, np.arange(len(work)))]
    place = np.arange(len(work))
    far = np.minimum(place + MIN_OVERRUN, last_of)
    following = np.minimum(place + 1, last_of)
    to_next = np.maximum(begin[following] - begin, 1)
    length = duration[work]
    wrong = (
        (far == place + MIN_OVERRUN) & (begin + length > begin[far]) & (length >= MIN_TIMES_LONGER * to_next)
    )
    if not wrong.any():
        return
    wrong &= ~in_graph()[work]
    if not wrong.any():
        return
    clipped = work[wrong]
    before = duration[clipped].copy()
    duration[clipped] = to_next[wrong]
    example = (
        f"{strings[table.name[clipped[0]]]}: recorded {duration_text(float(before[0]))}, "
        f"shown {duration_text(float(duration[clipped[0]]))}; all of them: recorded "
        f"{duration_text(float(before.sum()))}, shown {duration_text(float(duration[clipped].sum()))}"
    )
    quality.note(
        "overrun",
        Effect.REPAIRED,
        "a GPU operation ends long after later ones of its stream began; its end was set to the next start",
        example,
        len(clipped),
    )
