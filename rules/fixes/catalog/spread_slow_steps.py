"""Steps in which something else happens as well, such as saving or an evaluation, become like the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.arrays import BOOL, F64
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.inference.engine_steps import engine_steps
from rules.analysis.names.regions import RegionRole, role_of
from rules.analysis.steps.growth import grow
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.evaluated import evaluation_ns
from rules.remedies.host_work import RARER_IN_SLOW_STEPS
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.terms.shares import MAJORITY

SLOW = 1.5  # times the median step (nsys-ai: longest step over the median)
OTHER_CALLS = 0.1  # more calls than the median step, or ...
OTHER_WORK = 0.3  # ... more time in stretches of its own, as a part of the step: else it is slow by chance
MIN_STEPS = 3


@fix
class SpreadSlowSteps:
    """Steps that are slow because they do more than the others."""

    id = "spread-slow-steps"
    switches = ("no-logging", "no-evaluation", "gc-freeze")
    explanation = """
When it applies
    Fewer than half of the steps take more than 1.5 times the median, and they make different calls or work longer on
    the CPU. Steps of which each takes longer than the one before have no extra work: what they work on grows. Waiting
    for a batch, evaluating, and starting the data loader's workers anew have fixes of their own.

What is changed in the replay
    These steps are left out: the run continues with its typical steps.

What makes it more or less
    How often the additional work must be done, and how much of it another process or thread can take over.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        slow = _slow_steps(analysis, replay)
        count = int(np.count_nonzero(slow))
        if not count or len(engine_steps(analysis.trace).start):
            return  # a serving engine's steps differ by what requests ask for
        host, device = replay.host, replay.device
        culprit = _where(analysis, replay, slow)
        if role_of(culprit) is RegionRole.INPUT:
            return  # these steps wait for their batch: that is a fix of its own
        lengths = _lengths(replay)
        longer = float(np.mean(lengths[slow]) - np.median(lengths))
        around = surroundings_of(analysis)
        started = float(around.worker_starts_ns.sum() + around.first_batches_ns.sum()) / len(replay.spans)
        if max(evaluation_ns(replay), started) >= MAJORITY * longer * count:
            return  # so is an evaluation, and so are workers that start anew
        nodes = slow[host.step]
        operations = nodes[device.launch]
        meetings = np.unique(device.meeting[operations & (device.meeting >= 0)])
        numbers = np.searchsorted(np.unique(device.meeting[device.meeting >= 0]), meetings)
        typical = replay.steps - count
        after = slow[np.maximum(host.step - 1, 0)] & (host.step > 0)
        before = np.where(after, replay.of_step_before * replay.host.gap, 0.0)
        tail = bool(slow[-1])

        def left_out(overlay: Overlay) -> None:
            overlay.gap -= np.minimum(before, overlay.gap)
            overlay.gap[nodes] = 0.0
            overlay.cost[nodes] = 0.0
            overlay.waits[nodes] = False
            overlay.present[operations] = False
            overlay.transfer[numbers] = 0.0
            if tail:
                overlay.tail[:] = 0.0
            overlay.steps = float(typical)

        yield Proposal(
            title=(
                f"Remove the extra work of {count} of {replay.steps} steps: it costs {duration(longer)} each time"
            ),
            categories=(Category.VARIABILITY, Category.HOST_BOUND),
            culprit=culprit,
            remedy=RARER_IN_SLOW_STEPS,
            expected=left_out,
        )


def _lengths(replay: Replay) -> F64:
    """How long each step took on the rank where it took longest, ns."""
    longest: F64 = np.max([np.diff(span.edges) for span in replay.spans], axis=0).astype(np.float64)
    return longest


def _slow_steps(analysis: Analysis, replay: Replay) -> BOOL:
    lengths = _lengths(replay)
    none = np.zeros(len(lengths), bool)
    if len(lengths) < MIN_STEPS or grow(lengths):
        return none
    median = float(np.median(lengths))
    slow = lengths > SLOW * median
    host = replay.host
    calls = np.bincount(host.step, minlength=len(lengths)).astype(np.float64)
    silent = np.maximum(surroundings_of(analysis).silent_ns - surroundings_of(analysis).pauses_ns, 0.0)
    earlier = np.minimum(replay.of_step_before * replay.host.gap, silent)
    own = np.bincount(host.step, silent - earlier, minlength=len(lengths)).astype(np.float64)
    own = own + np.bincount(np.maximum(host.step - 1, 0), earlier, minlength=len(lengths))
    own = own / len(replay.spans)
    more_calls = np.abs(calls - np.median(calls)) > OTHER_CALLS * np.median(calls)
    more_work = own - np.median(own) > OTHER_WORK * lengths
    slow &= more_calls | more_work
    return slow if 0 < np.count_nonzero(slow) < 0.5 * len(lengths) else none


def _where(analysis: Analysis, replay: Replay, slow: BOOL) -> str:
    """The place of the longest stretch in the slow steps."""
    around = surroundings_of(analysis)
    silent = np.where(slow[replay.host.step], around.silent_ns, 0.0)
    return around.place(int(silent.argmax())) if silent.any() else "slow steps"
