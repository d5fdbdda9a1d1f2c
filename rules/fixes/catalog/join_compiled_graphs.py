"""Graphs of torch.compile that a read-back between them breaks apart become one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import per_step, together, without_calls
from rules.fixes.compiling import beside_graph_breaks, graph_breaks
from rules.losses.owners import place_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

_CONDITION = "aten::is_nonzero"
# of the time up to the read-back, and from there to the next graph's first kernel: leaving and entering a graph
LEFT, LEFT_AT_LEAST = 0.5, 0.25

_CODE = """x = block(x)
bad |= ~torch.isfinite(x).all()      # stays on the GPU, and in the graph
# not: if not torch.isfinite(x).all(): raise ...
...
if step % 100 == 0 and bad.item():   # outside of what is compiled
    raise FloatingPointError("activations are not finite")"""


@fix
class JoinCompiledGraphs:
    """Values that are read back between two compiled graphs of a step."""

    id = "join-compiled-graphs"
    explanation = """
When it applies
    At least twice in a step, a compiled graph of torch.compile ends with a value that is read back, and another one
    follows at once: the program looks at a value, so the compiler can't go on. Without training, only conditions on
    tensors count: a loop that chooses the next token reads values between its graphs, too.

What is changed in the replay
    The read-backs and their waits are gone, and half of the time between the graphs, a quarter at least, all of it at
    most.

What makes it more or less
    What the compiler fuses across the joint, and whether something else breaks the graph in the same place
    (TORCH_LOGS=graph_breaks tells).
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = graph_breaks(analysis)
        if not nodes.any():
            return
        waits = nodes & (replay.waits.target >= 0)
        begins = nodes & ~np.append(False, nodes[:-1])
        often = per_step(replay, float(np.count_nonzero(begins)))
        around = surroundings_of(analysis)
        condition = bool((around.inside(_CONDITION.__eq__) & nodes).any())
        name = _CONDITION if condition else "aten::item"
        place = place_of(analysis, waits.astype(np.float64))
        edges = beside_graph_breaks(analysis)
        yield Proposal(
            title=(
                f"Join the compiled graphs: {often:,.0f} graph breaks with a read-back ({name}"
                f"{f' in {place}' if place else ''}) {replay.in_step}"
            ),
            categories=(Category.SYNCHRONIZATION, Category.LAUNCH_BOUND, Category.GRAPH_BREAK),
            culprit=name,
            problem="Read-backs break the compiled graph",
            remedy=remedy(
                for_pytorch(
                    "Do not look at values inside of what is compiled: no if on a tensor, no .item(), no assert. Use "
                    "torch.where, or collect what is to be checked and read it once, behind the step."
                ),
                for_pytorch(
                    "Find all places: TORCH_LOGS=graph_breaks, or torch.compile(model, fullgraph=True), which fails at "
                    "the first one."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=_joined(replay, nodes, edges, LEFT),
            low=_joined(replay, nodes, edges, 1.0 - LEFT_AT_LEAST),
            high=_joined(replay, nodes, edges, 0.0),
            depends_on="what the compiler fuses across the joint",
        )


def _joined(replay: Replay, nodes: BOOL, edges: BOOL, left: float) -> Change:
    """Nothing is read, and this part of the time before it, and before what follows, is left."""

    def closer(overlay: Overlay) -> None:
        overlay.gap[edges] *= left

    return together(closer, without_calls(replay, nodes, 0.0))
