"""The forward pass is not computed a second time inside the backward pass."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL
from parsers.model.events import of_kinds
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.memory_bound import FUSABLE
from rules.analysis.names.operators import FORWARD
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix, remedy
from rules.fixes.changes import durations_times, share_of, together, without_calls
from rules.fixes.forms.graph_passes import computed_again_in_graphs
from rules.memory.room import is_nearly_full
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.terms.shares import MAJORITY
from rules.wording.words import for_pytorch

_CODE = """# transformers: model.gradient_checkpointing_disable()
hidden = block(hidden)                       # instead of checkpoint(block, hidden)"""


@fix
class KeepActivations:
    """Activation checkpointing."""

    id = "keep-activations"
    explanation = """
When it applies
    Operators of the forward pass run inside functions of the backward pass for at least 5 % of the GPU's time, and
    the GPU's memory, if it was recorded, is at most 70 % full. Or a CUDA graph has kernels of the forward pass, by
    their names, before the first one of the backward pass and again between those.

What is changed in the replay
    Everything up to the last of these operators in each function is gone, and of a graph the time of its forward pass.

What makes it more or less
    Whether the GPU's memory has room for the activations.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device = replay.device
        again = computed_again(analysis, replay)
        in_graphs = computed_again_in_graphs(analysis, replay)
        share = share_of(replay, again[device.launch])
        share += float(device.duration @ in_graphs) / max(float(device.duration.sum()), 1.0)
        if share < MIN_GPU_SHARE or is_nearly_full(analysis):
            return
        yield Proposal(
            title=f"Keep activations instead of recomputing them: {percent(share)} of the GPU's time",
            categories=_categories(analysis, replay, again[device.launch]),
            culprit="activation checkpointing",
            problem="Activations are computed twice",
            remedy=remedy(
                "The forward pass runs a second time inside the backward pass to save memory. If the GPU has room, "
                "keep the activations.",
                for_pytorch(
                    "Turn checkpointing off, or checkpoint only as many blocks as memory requires; "
                    "torch.cuda.max_memory_allocated() shows how much is used."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=together(without_calls(replay, again), durations_times(in_graphs > 0, 1 - in_graphs)),
            depends_on="whether the GPU's memory has room for the activations",
        )


def _categories(analysis: Analysis, replay: Replay, again: BOOL) -> tuple[Category, ...]:
    """What it is told as: of kernels that only move memory, too, where most of what is computed again does."""
    family = analysis.family_of_string[analysis.trace.events.name[replay.device.event]]
    moving = share_of(replay, again & of_kinds(family, *FUSABLE))
    memory = (Category.MEMORY_BOUND_KERNELS,) if moving > MAJORITY * share_of(replay, again) else ()
    return Category.SLOW_OPERATOR, Category.GPU_BOUND, Category.LAUNCH_BOUND, *memory


def computed_again(analysis: Analysis, replay: Replay) -> BOOL:
    """Which calls belong to a forward pass inside the backward pass.

    A function of the backward pass asks for its activations first: what it calls until they are there computes them.
    """
    function, host = autograd_functions(analysis), replay.host
    forward = (function >= 0) & surroundings_of(analysis).inside(FORWARD.__contains__)
    found = np.zeros(len(function), bool)
    if not forward.any():
        return found
    functions, which = np.unique(function[forward], return_inverse=True)
    last = np.zeros(len(functions), np.int64)
    np.maximum.at(last, which, host.start[forward])
    mine = np.flatnonzero(np.isin(function, functions))
    found[mine] = host.start[mine] <= last[np.searchsorted(functions, function[mine])]
    return found
