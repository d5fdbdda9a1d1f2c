"""The launches of a step are recorded once and replayed as CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL
from parsers.model.events import of_kinds
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.gpu_vendor import has_graphs
from rules.analysis.names.host_language import Audience, program_of
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.catalog.fuse_optimizer import FuseOptimizer
from rules.fixes.catalog.join_loop import JoinLoop
from rules.fixes.catalog.launch_ahead import LaunchAhead
from rules.fixes.compiling import graph_breaks
from rules.fixes.counted_rows import counts_rows
from rules.fixes.host_phases import own_work
from rules.remedies.launching import replayed_graph
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import Reader, ours, said

MIN_LAUNCHES = 20  # between two waits: fewer are not worth a graph
NODE_NS = 500.0  # what launching a graph costs for each of its kernels: docs/predictions.md
GRAPH_NS = 10_000.0
MIN_TRAINING_SPEEDUP = 1.5  # times faster: a training step is much work to capture
# in a training step: what is read back more often is removed first, for nothing is inside a graph
FEW_WAITS = 4
MIN_KERNELS = 3  # different ones, where no steps were found
OTHER_LAUNCHES = 0.02  # of the launches of a step: a graph makes the same ones each time
_CAPTURED = (Call.LAUNCH, Call.MEMSET, Call.COPY, Call.LOAD)


@fix
class ReplayCudaGraph:
    """Steps whose CPU launches too slowly."""

    id = "replay-cuda-graph"
    switches = ("cuda-graph", "compile-reduce-overhead")
    explanation = """
When it applies
    There are stretches of 20 or more launches in which nothing is read back, with at least 3 different kernels where
    no steps were found. Training steps qualify only where launching takes most of the step, every step makes the same
    launches, and nothing simpler removes them: no loop over tensors, no optimizer that goes through its parameters
    one by one, no constant reading back of values, no graph breaks with a read-back, no launches that wait for
    their kernel.

What is changed in the replay
    The host time between and inside these launches is gone; launching a graph costs 0.5 us for each kernel in it.
    What an inference program does outside operators, and every wait, stays. A training step is captured as a whole,
    except for phases of at least 250 us in which the CPU does its own work.

What makes it more or less
    Shapes and addresses must be the same in every step. Whatever cannot be captured stays as it is.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        training = is_training(analysis)
        if len(replay.spans) > 1 or replay.host.threads > 1 or (training and not _alike(analysis, replay)):
            return
        if program_of(analysis.trace) is Audience.JAX or not has_graphs(analysis.trace):  # XLA makes its own
            return
        host, around = replay.host, surroundings_of(analysis)
        captured = of_kinds(host.call, *_CAPTURED) & (replay.waits.target < 0)
        run = np.cumsum(~captured | np.append(True, np.diff(host.step) != 0))
        size = np.bincount(run[captured], minlength=int(run.max(initial=0)) + 1)
        inside = captured & (size[run] >= MIN_LAUNCHES)
        if not inside.any():
            return
        if not any(span.numbers for span in replay.spans) and _is_one_call(replay, inside):
            return
        continued = np.append(False, inside[:-1] & (run[1:] == run[:-1]))
        first = inside & ~continued
        own = own_work(replay, around) if training else around.silent_ns
        kept = np.minimum(own + around.input_ns, host.gap)
        cost = np.where(first, GRAPH_NS + NODE_NS * size[run], 0.0)

        def graphed(overlay: Overlay) -> None:
            overlay.gap[inside] = np.minimum(overlay.gap[inside], kept[inside])
            overlay.cost[inside] = (
                np.minimum(overlay.cost[inside], cost[inside]) + np.where(first, cost, 0.0)[inside]
            )

        if training and replay.gain([graphed]) < MIN_TRAINING_SPEEDUP:
            return
        launches = np.count_nonzero(inside) / max(replay.steps, 1)
        yield Proposal(
            title=f"{said(ours('Replay a $CUDA graph'), Reader.of(analysis.trace))} instead of launching "
            f"{launches:,.0f} operations one by one {replay.in_step}",
            categories=(Category.LAUNCH_BOUND,),
            culprit="launches",
            remedy=replayed_graph(analysis.trace, training=training),
            expected=graphed,
            broad=training,
        )


def _is_one_call(replay: Replay, inside: BOOL) -> bool:
    """Whether all launches are of the same few kernels: a call that is measured over and over is no sequence."""
    launched = replay.device.event[inside[replay.device.launch]]
    return len(np.unique(replay.analysis.trace.events.name[launched])) < MIN_KERNELS


def _alike(analysis: Analysis, replay: Replay) -> bool:
    """Whether every step makes the same launches, and none that a simpler change would remove."""
    of_step = np.bincount(replay.host.step[replay.device.launch], minlength=replay.steps)
    of_step = (
        of_step[1:-1] if len(of_step) > 2 else of_step
    )  # where steps are not marked, the outer ones may be cut
    waits = np.count_nonzero(replay.waits.target >= 0) / max(replay.steps, 1)
    if np.ptp(of_step) > OTHER_LAUNCHES * of_step.max() or counts_rows(replay).any() or waits > FEW_WAITS:
        return False
    if graph_breaks(analysis).any():
        return False
    return not any(
        True
        for simpler in (FuseOptimizer(), JoinLoop(), LaunchAhead())
        for _ in simpler.proposals(analysis, replay)
    )
