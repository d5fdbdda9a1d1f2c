"""Requests that are served one at a time are collected and served together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay

TOGETHER = 16.0  # requests: a batch that serving programs form by default, and at least a quarter of it
FEW, MANY = 4.0, 64.0
EQUALLY = 0.5  # launches of the busiest thread
ALIKE = 0.8  # of the kernels' names: the threads run the same model
MIN_LIMIT = 2.0  # times faster with no host time at all: else the GPU is the limit already


@fix
class BatchRequests:
    """Several threads that run a small model for their own requests."""

    id = "batch-requests"
    explanation = """
When it applies
    Several threads of one process run a model without training it, and the CPU is the limit.

What is changed in the replay
    If k requests are served together, the host time becomes a k-th. The GPU's time stays the same.

What makes it more or less
    How many requests are waiting at once, and how much longer a batch takes than one request. The program has to be
    redesigned, so there is a range but no single estimate.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        threads = _alike(analysis, replay)
        if threads < 2 or len(replay.spans) > 1 or is_training(analysis):
            return
        if replay.gain([_divided(1e9)]) < MIN_LIMIT:
            return
        yield Proposal(
            title=(
                f"Serve several requests together: {threads} threads take turns, each running the model separately"
            ),
            categories=(Category.LAUNCH_BOUND, Category.HOST_BOUND),
            culprit=f"{threads} threads",
            remedy=remedy(
                "Collect waiting requests into a batch, run the model once, and hand back the answers: one thread "
                "launches, the others only queue.",
                "Servers such as vLLM or Triton Inference Server already do this.",
            ),
            expected=_divided(TOGETHER),
            low=_divided(FEW),
            high=_divided(MANY),
            depends_on=(
                "how many requests wait at the same time: served together, k of them are up to k times faster, but "
                "no faster than the GPU can compute"
            ),
            redesign=True,
        )


def _alike(analysis: Analysis, replay: Replay) -> int:
    """How many threads launch the same kernels about equally often on GPUs that they share.

    A thread for each GPU serves no request of its own: it does one part of the same work.
    """
    trace, device = analysis.trace, replay.device
    owner = analysis.threads.of_events(replay.host.event[device.launch])
    found, counts = np.unique(owner[owner >= 0], return_counts=True)
    busy = found[counts >= EQUALLY * counts.max(initial=0)]
    kernels = [
        set(np.unique(trace.events.name[device.event[owner == each]]).tolist()) for each in busy.tolist()
    ]
    if len(kernels) < 2:
        return len(kernels)
    gpus = [_gpus(trace, device.event[owner == each]) for each in busy.tolist()]
    if sum(map(len, gpus)) == len(set.union(*gpus)):
        return 1
    shared = set.intersection(*kernels)
    return len(kernels) if len(shared) >= ALIKE * max(map(len, kernels)) else 1


def _gpus(trace: Trace, operations: I64) -> set[int | None]:
    return {trace.lanes[lane].device for lane in np.unique(trace.events.lane[operations]).tolist()}


def _divided(times: float) -> Change:
    def change(overlay: Overlay) -> None:
        overlay.gap /= times
        overlay.cost /= times
        overlay.tail /= times
        overlay.waits[:] = False
        overlay.turns = False  # those of small requests leave room for one another

    return change
