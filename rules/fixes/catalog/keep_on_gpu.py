"""What the host only calculates with, between a copy from the GPU and one back, is calculated on the GPU."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import F64
from parsers.model.units import duration, size
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import collectives_on_cpu
from rules.findings.category import Category
from rules.fixes.backward import optimizers_ns
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, per_step, together, without_calls, without_waiting
from rules.fixes.round_trips import RoundTrips, round_trips
from rules.remedies.communication import ON_GPU
from rules.remedies.copies import KEEP_ON_GPU, KEEP_WEIGHTS, OPTIMIZER_ON_GPU
from rules.remedies.engines import directive_advice
from rules.remedies.host_work import by_name
from rules.remedies.remedy import remedy
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.terms.culprit import Culprit, CulpritKind
from rules.wording.phrases import shortened

ALIKE = 0.5


@fix
class KeepOnGpu:
    """Round trips over the host: an optimizer on the CPU, offloaded tensors, a formula in the wrong place."""

    id = "keep-on-gpu"
    switches = ("no-read-backs",)
    explanation = """
When it applies
    More than 1 MB per step is copied to the host, operators on the CPU compute on it for more than 1 ms, and copies
    of the same sizes go back before the GPU gets other work; where directives (OpenACC, OpenMP) offload loops, the CPU
    need not compute. Or the CPU works for more than 1 ms inside the backward
    pass or an optimizer, and copies of the same sizes go both ways in each step. Or at least eight copies of at least
    two sizes go each way in a step, as weights do when they are swapped in and out, and gradients when gloo or MPI
    reduces them on the CPU.

What is changed in the replay
    The copies in both directions, the waits for them and the host work in between are gone; a twentieth of its
    operators' time stays, a fiftieth for long ones, which is what they take on the GPU.

What makes it more or less
    How fast the GPU does the work: for large operators almost nothing stays. Whether the GPU's memory has room for
    what the host holds, such as an optimizer's state.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trips = round_trips(analysis)
        if not trips.calls.any():
            return
        updates = _updates_parameters(analysis, replay, trips)
        exchanged = trips.swapped and len(collectives_on_cpu(analysis.trace)) > 0
        name = (
            ""
            if trips.swapped or trips.mapped
            else surroundings_of(analysis).place(int(trips.work_ns.argmax()))
        )
        what = (
            "Update the parameters on the GPU"
            if updates
            else "Let NCCL exchange tensors between the GPUs"
            if exchanged
            else "Leave data that does not change on the GPU"
            if trips.swapped
            else "Keep the arrays on the GPU from loop to loop"
            if trips.mapped
            else f"Move the work of {shortened(name)} to the GPU"
            if name
            else "Keep the computation on the GPU"
        )
        named = by_name(Culprit(CulpritKind.REGION, name))
        amount = size(round(per_step(replay, trips.bytes)))
        taken = per_step(replay, float(replay.host.cost[trips.calls].sum() + trips.work_ns.sum()))
        yield Proposal(
            title=f"{what}: {amount} go to the host and come back, {duration(taken)} {replay.in_step}",
            categories=(
                Category.COPY_D2H,
                Category.COPY_H2D,
                Category.HOST_BOUND,
                Category.SYNCHRONIZATION,
                *((Category.EXPOSED_COMMUNICATION,) if exchanged else ()),
            ),
            culprit="optimizer on the CPU" if updates else name or "round trip through the host",
            remedy=OPTIMIZER_ON_GPU
            if updates
            else ON_GPU
            if exchanged
            else KEEP_WEIGHTS
            if trips.swapped
            else remedy(*directive_advice(analysis.trace), *KEEP_ON_GPU.advice)
            if trips.mapped
            else KEEP_ON_GPU.after(*(named.advice if named else ())),
            expected=_without(replay, trips, trips.work_ns),
            high=_without(replay, trips, trips.work_ns + trips.left_ns),
            depends_on="how fast the link between the GPUs is"
            if exchanged
            else "whether the CPU needs the arrays in between"
            if trips.mapped
            else "how fast the GPU does this work, and whether its memory has room for it",
        )


def _without(replay: Replay, trips: RoundTrips, work_ns: F64) -> Change:
    return together(
        without_calls(replay, trips.copies, 0.0),
        without_waiting(trips.calls),
        less_host_time(trips.calls, work_ns),
    )


def _updates_parameters(analysis: Analysis, replay: Replay, trips: RoundTrips) -> bool:
    """Whether most of the work on the host is an optimizer's step."""
    gap = replay.host.gap
    inside = np.minimum(optimizers_ns(analysis), gap)
    return bool(inside[trips.calls].sum() > ALIKE * gap[trips.calls].sum())
