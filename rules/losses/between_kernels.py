"""The time that passes between kernels which one call launched together, as a CUDA graph does."""

from __future__ import annotations

from rules.analysis.analysis import Analysis
from rules.analysis.idle.attribution import BETWEEN_NODES
from rules.analysis.idle.causes import Cause
from rules.losses.lost_time import IdleTime
from rules.wording.phrases import share

MIN_BETWEEN = 0.15  # of the time: less is what any sequence of kernels takes


def between_nodes(analysis: Analysis) -> tuple[IdleTime, int]:
    """That time on the GPU where it is longest, and how long it is (ns); 0 where it does not matter."""
    waiting = IdleTime(analysis, Cause.DEPENDENCY, (BETWEEN_NODES,))
    ns = sum(each.ns for each in waiting.blames)
    return waiting, ns if share(analysis, ns) >= MIN_BETWEEN else 0
