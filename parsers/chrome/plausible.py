"""Tells events with impossible times from the rest, so that no single one stretches the view."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.chrome.times import FARTHEST_NS, INVALID

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LEAST_GAP_NS = 3_600 * 1_000_000_000  # recordings do not pause longer than this ...
GAP_TO_SPAN = 20  # ... nor many times longer than they last
MOST_STRAY_SHARE = 0.05  # a cluster with more events than this is no accident
LONGEST_NS = 10 * 365 * 86_400 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which events cannot be shown, by reason."""

    no_time: Mask
    no_duration: Mask  # not a number, negative, or longer than any recording
    far_away: Mask


def judge(start: I64, duration: I64, good: Mask) -> Verdict:
    """Sort out events by their times (ns)."""
    no_time = (start == INVALID) | (np.abs(start) >= FARTHEST_NS)
    no_duration = ~no_time & (~good | (duration < 0) | (duration > LONGEST_NS))
    usable = ~(no_time | no_duration)
    far_away = np.zeros(len(start), bool)
    if usable.any():
        blank = (start == 0) & (duration == 0)
        telling = usable & ~blank if (usable & ~blank).any() else usable
        first, last = main_cluster(start[telling])
        span = max(last - first, 1)
        far_away = usable & ((start < first) | (start > last))
        longest = max(GAP_TO_SPAN * span, LEAST_GAP_NS)
        no_duration |= usable & (duration > longest)
        far_away &= ~no_duration
    return Verdict(no_time, no_duration, far_away)


def main_cluster(start: I64) -> tuple[int, int]:
    """First and last start of the events that belong together; strays are cut off at both ends."""
    if int(start.max()) - int(start.min()) <= LEAST_GAP_NS:
        return int(start.min()), int(start.max())
    ordered = np.sort(start)
    gaps = np.diff(ordered)
    breaks = np.flatnonzero(gaps > LEAST_GAP_NS)
    if not len(breaks):
        return int(ordered[0]), int(ordered[-1])
    firsts = np.concatenate(([0], breaks + 1))
    lasts = np.append(breaks, len(ordered) - 1)
    sizes = lasts - firsts + 1
    main = int(np.argmax(sizes))
    low = high = main
    while low > 0 and sizes[low - 1] > MOST_STRAY_SHARE * len(ordered):
        low -= 1
    while high < len(sizes) - 1 and sizes[high + 1] > MOST_STRAY_SHARE * len(ordered):
        high += 1
    return int(ordered[firsts[low]]), int(ordered[lasts[high]])
