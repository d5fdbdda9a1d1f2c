"""The launches of a step are recorded once and replayed as CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.analysis.facts.host_language import Audience, program_of
from rules.analysis.facts.training import is_training
from rules.category import Category
from rules.fixes.base import Proposal, fix
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_python

BOOL = npt.NDArray[np.bool_]

LEAST_LAUNCHES = 20  # between two waits: fewer are not worth a graph
NODE_NS = 800.0  # what launching a graph costs for each of its kernels: docs/predictions.md
GRAPH_NS = 10_000.0
_CAPTURED = (Call.LAUNCH, Call.MEMSET, Call.COPY)

_CODE = """graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):                    # after a few warm-up runs on a side stream
    static_output = model(static_input)

static_input.copy_(batch)                        # every step: copy in, replay, read out
graph.replay()
# or: model = torch.compile(model, mode="reduce-overhead")"""


@fix
class ReplayCudaGraph:
    """Inference whose CPU launches too slowly."""

    id: ClassVar[str] = "replay-cuda-graph"
    explanation: ClassVar[str] = """
When it applies
    A model is run, not trained, and there are stretches of 20 and more launches between which nothing is read back.

What is changed in the replay
    The host time between and inside these launches is gone; launching a graph costs 0.8 us for each kernel in it.
    What the program does outside of operators, and every wait, stays.

What makes it more or less
    Shapes and addresses must be the same in each step. What cannot be captured stays as it is.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for the whole recording."""
        if is_training(analysis) or len(replay.spans) > 1 or replay.host.threads > 1:
            return
        if program_of(analysis.trace) is Audience.JAX:  # XLA makes graphs by itself
            return
        host, around = replay.host, surroundings_of(analysis)
        captured = np.isin(host.call, _CAPTURED) & (replay.waits.target < 0)
        run = np.cumsum(~captured | np.append(True, np.diff(host.step) != 0))
        size = np.bincount(run[captured], minlength=int(run.max(initial=0)) + 1)
        inside = captured & (size[run] >= LEAST_LAUNCHES)
        if not inside.any():
            return
        continued = np.append(False, inside[:-1] & (run[1:] == run[:-1]))
        first = inside & ~continued
        kept = np.minimum(around.silent_ns + around.input_ns, host.gap)
        cost = np.where(first, GRAPH_NS + NODE_NS * size[run], 0.0)

        def graphed(overlay: Overlay) -> None:
            overlay.gap[inside] = np.minimum(overlay.gap[inside], kept[inside])
            overlay.cost[inside] = (
                np.minimum(overlay.cost[inside], cost[inside]) + np.where(first, cost, 0.0)[inside]
            )

        launches = np.count_nonzero(inside) / max(replay.steps, 1)
        yield Proposal(
            fix=self.id,
            key="",
            title=f"Replay a CUDA graph instead of launching {launches:,.0f} kernels one by one {replay.in_step}",
            categories=(Category.LAUNCH_BOUND,),
            culprit="launches",
            advice=(
                "Capture the launches of a step once, as a graph, and replay it.",
                for_python('torch.cuda.CUDAGraph does it, or torch.compile(model, mode="reduce-overhead").'),
                "Static shapes are needed: pad the input to a few sizes and capture one graph for each.",
            ),
            code=_CODE,
            expected=graphed,
        )
