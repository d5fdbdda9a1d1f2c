"""Weights that do not change, and are converted or normalised again in each call."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.arrays import distinct_values
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import of_nodes, per_step, share_of, without_calls
from rules.fixes.forms.converted_weights import converts_weights
from rules.losses.cpu_work import MIN_STEPS
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

_CONVERTING_CODE = """frozen = model.base.to(torch.bfloat16)          # once, before the loop
# not in each call: F.linear(x, weight.to(torch.bfloat16))"""


@fix
class ConvertOnce:
    id = "convert-once"
    explanation = """
When it applies
    Right before a product with weights, these are converted to another type, or dequantised, for at least 5 % of the
    GPU's time, in every one of at least two steps. Shapes must be recorded: they say what the weights are. No gradient
    flows back through the conversion: autograd then gives it no number of its own.

What is changed in the replay
    The conversions are gone.

What makes it more or less
    Whether there is room for the converted weights: those of quantised models take more memory than before.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = converts_weights(analysis, replay)
        operations = nodes[replay.device.launch]
        share = share_of(replay, operations)
        steps = distinct_values(replay.host.step[nodes])
        if share < MIN_GPU_SHARE or len(steps) < max(replay.steps, MIN_STEPS):
            return
        yield Proposal(
            title=f"Convert the weights once: {percent(share)} of the GPU's time converts them in each call",
            categories=(
                Category.MEMORY_BOUND_KERNELS,
                Category.SLOW_OPERATOR,
                Category.LAUNCH_BOUND,
                Category.RECOMPUTATION,
            ),
            culprit="aten::to",
            problem="Weights are converted in each call",
            remedy=pytorch_remedy(
                "Convert weights that do not change when the model is loaded, and keep the result: "
                "model.to(torch.bfloat16).",
                "Under torch.autocast, frozen weights are converted in each forward pass: store them in its type.",
                "For quantised weights, use kernels that convert while they multiply (torchao, Marlin).",
                code=_CONVERTING_CODE,
            ),
            expected=without_calls(replay, nodes),
        )


_FOLDING_CODE = """from torch.nn.utils import parametrize

for module in model.modules():                      # once, after the weights are loaded
    if parametrize.is_parametrized(module, "weight"):
        parametrize.remove_parametrizations(module, "weight")
# of the older torch.nn.utils.weight_norm: torch.nn.utils.remove_weight_norm(module)"""


@fix
class FoldWeightNorm:
    id = "fold-weight-norm"
    explanation = """
When it applies
    Nothing is trained, and in every one of at least two steps kernels normalise weights (torch.nn.utils.weight_norm).

What is changed in the replay
    These kernels are gone, with the time before their launches. At least, that time stays.

What makes it more or less
    How much of the time before a launch Python takes to compute the weights as a parametrisation: that goes, too.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if is_training(analysis):
            return
        trace, device = analysis.trace, replay.device
        nodes = of_nodes(replay, named(trace, device.event, lambda name: "weight_norm_fwd" in name))
        steps = distinct_values(replay.host.step[nodes])
        if len(steps) < max(replay.steps, MIN_STEPS):
            return
        often = per_step(replay, float(nodes.sum()))
        yield Proposal(
            title=(
                f"Fold the weight normalisation into the weights: {often:,.0f} weights are normalised again "
                f"{replay.in_step}"
            ),
            categories=(Category.RECOMPUTATION, Category.LAUNCH_BOUND, Category.HOST_BOUND),
            culprit="aten::_weight_norm",
            problem="Weights are normalised again in each call",
            remedy=pytorch_remedy(
                "Remove the parametrisation once the model is loaded and no longer trained: the weights then stay "
                "as they are normalised.",
                code=_FOLDING_CODE,
            ),
            expected=without_calls(replay, nodes),
            low=without_calls(replay, nodes, gaps=0.0),
            depends_on="how long Python takes to compute a parametrised weight",
        )
