"""A pipeline works on several micro-batches at once, so that its stages wait less for one another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import collective_columns
from rules.analysis.ranks.stages import messages_passed_on, stages_of
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import first_members, host_time_times, together, without_meetings
from rules.remedies.communication import MICRO_BATCHES_FOR_STAGE, full_pipeline
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay

CALLS_OF_EACH = 0.9  # of a step's calls are made again for each further micro-batch; the update comes once


@fix
class FillPipeline:
    """Stages that send to one another."""

    id = "fill-pipeline"
    explanation = """
When it applies
    The ranks mostly send to and receive from each other, and one of them begins with a send: they form a chain.

What is changed in the replay
    Stages wait for one another for half, a quarter, ... of the time with two, four, ... times as many micro-batches,
    and transfers overlap with computation. Nine tenths of a step's calls are made again for each further micro-batch.
    Of the numbers of micro-batches, up to four for each stage, the best is taken. At most, stages never wait, the calls
    cost nothing more, and the slowest stage is the limit.

What makes it more or less
    The number of micro-batches m: with s stages, (s - 1) of (m + s - 1) slots stay empty. Smaller micro-batches use
    the GPU less efficiently, and the CPU launches as much for each as for a large one.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        stages = len(stages_of(analysis.trace))
        if stages < 2 or len(replay.spans) < 2 or not (replay.device.meeting >= 0).any():
            return
        yield Proposal(
            title=f"Feed the pipeline more micro-batches: its {stages} stages wait for each other",
            categories=(Category.PIPELINE_BUBBLE, Category.EXPOSED_COMMUNICATION),
            culprit="pipeline",
            remedy=full_pipeline(stages),
            expected=_filled(analysis, replay, stages),
            high=_never_waiting(replay),
        )


def _never_waiting(replay: Replay) -> Change:
    return without_meetings(replay, np.ones(len(first_members(replay)[0]), bool))


def _filled(analysis: Analysis, replay: Replay, stages: int) -> Change:
    """With as many micro-batches as pay."""
    passes = messages_passed_on(collective_columns(analysis.trace), *analysis.window)
    now = max(round(passes / max(analysis.steps_in_window, 1)), 1)
    waits = max(replay.usual_ns - replay.time([_never_waiting(replay)]), 0.0)
    most = max(MICRO_BATCHES_FOR_STAGE * stages // now, 2)
    further = [_divided(replay, waits, 2**power) for power in range(1, most.bit_length())]
    return min(further, key=lambda change: replay.time([change]))


def _divided(replay: Replay, waits: float, times: int) -> Change:
    """With so many times as many micro-batches: what is waited for is shared, and calls are made for each."""
    device = replay.device
    work = np.bincount(device.span, replay.usual.duration * (device.meeting < 0))
    slowest = np.flatnonzero((device.meeting >= 0) & (device.span == int(work.argmax())))

    def waiting(overlay: Overlay) -> None:
        overlay.duration[slowest] = waits / times * replay.steps / len(slowest)

    calls = 1.0 + CALLS_OF_EACH * (times - 1)
    host = replay.host
    inside = np.append(False, (np.diff(host.step) == 0) & (np.diff(host.thread) == 0))
    return together(_never_waiting(replay), host_time_times(inside, calls), waiting)
