"""Launches return at once, instead of only when their kernel is done."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, EventKind
from parsers.model.names.calls import Call
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import per_step
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay
from rules.terms.shares import NEARLY_ALL
from rules.wording.words import for_python

MIN_KERNEL_NS = 20_000  # a shorter one may be over before its launch returns in any case
MIN_KERNELS = 20  # of such
AFTER_NS = 100_000  # the call returns so soon after the end: one that is later waited for something else
LAUNCH_NS = 6_000.0  # of a launch that does not wait: recordings of H100 and H200


@fix
class LaunchAhead:
    """Launches that wait for their own kernel, as with CUDA_LAUNCH_BLOCKING=1."""

    id = "launch-ahead"
    explanation = """
When it applies
    Nine in ten launches of kernels of 20 us or more return within 100 us after the kernel ends, and not before.

What is changed in the replay
    A launch takes at most 6 us: the CPU prepares the next one while the GPU works.

What makes it more or less
    How long the CPU needs between two launches, which now overlaps with the GPU's work.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        waiting = blocking_launches(replay)
        if not waiting.any():
            return
        lost = per_step(replay, float(np.maximum(replay.host.cost[waiting] - LAUNCH_NS, 0.0).sum()))
        share = np.count_nonzero(waiting) / np.count_nonzero(replay.host.call == Call.LAUNCH)

        def change(overlay: Overlay) -> None:
            overlay.cost[waiting] = np.minimum(overlay.cost[waiting], LAUNCH_NS)
            overlay.waits[waiting] = False

        yield Proposal(
            title=(
                f"Stop launches from blocking: {percent(share)} of them wait for their own kernel, {duration(lost)} "
                f"{replay.in_step}"
            ),
            categories=(Category.LAUNCH_BOUND, Category.HOST_BOUND, Category.SYNCHRONIZATION),
            culprit="CUDA_LAUNCH_BLOCKING",
            problem="Launches wait for their own kernels",
            remedy=remedy(
                "CUDA_LAUNCH_BLOCKING=1 is set, or a debugger or sanitizer has the same effect. It is meant for "
                "finding errors: the CPU and the GPU take turns.",
                for_python(
                    "Unset it in the shell, the job script and the container, and check os.environ for it."
                ),
                code=for_python("unset CUDA_LAUNCH_BLOCKING"),
            ),
            expected=change,
        )


def blocking_launches(replay: Replay) -> BOOL:
    """The launches that return only once their kernel is done; none where only some do."""
    device, host = replay.device, replay.host
    kernels = np.flatnonzero(
        (replay.analysis.trace.events.kind[device.event] == EventKind.KERNEL)
        & (host.call[device.launch] == Call.LAUNCH)
    )
    late = host.end[device.launch[kernels]] - device.end[kernels]
    waits = (late >= 0) & (late <= AFTER_NS)
    long = device.end[kernels] - device.start[kernels] >= MIN_KERNEL_NS
    found = np.zeros(len(host), bool)
    if np.count_nonzero(long) >= MIN_KERNELS and waits[long].mean() >= NEARLY_ALL:
        found[device.launch[kernels[waits]]] = True
    return found
