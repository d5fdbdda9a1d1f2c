"""Weights that do not change are converted once, not in each call that uses them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix, remedy
from rules.fixes.changes import share_of, without_calls
from rules.kernels.recorded_shapes import inputs_in
from rules.losses.cpu_work import MIN_STEPS
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

FAR = 5  # operators before a product: converting its data, its weights and its bias, and scaling them
_WEIGHTS_OF = {"aten::linear": 1, "aten::conv1d": 1, "aten::conv2d": 1, "aten::conv3d": 1, "aten::addmm": 2}
_CONVERTS = frozenset({"aten::to", "aten::_to_copy", "aten::dequantize"})
_BESIDE = _CONVERTS | {"aten::mul", "aten::sub", "aten::add", "aten::div"}

_CODE = """frozen = model.base.to(torch.bfloat16)          # once, before the loop
# not in each call: F.linear(x, weight.to(torch.bfloat16))"""


@fix
class ConvertOnce:
    """Weights that are cast, or dequantised, before each product with them."""

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
        nodes = _converting(analysis, replay)
        operations = nodes[replay.device.launch]
        share = share_of(replay, operations)
        steps = np.unique(replay.host.step[nodes])
        if share < MIN_GPU_SHARE or len(steps) < max(replay.steps, MIN_STEPS):
            return
        yield Proposal(
            title=f"Convert the weights once: {percent(share)} of the GPU's time converts them in each call",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR, Category.LAUNCH_BOUND),
            culprit="aten::to",
            problem="Weights are converted in each call",
            remedy=remedy(
                for_pytorch(
                    "Convert weights that do not change when the model is loaded, and keep the result: "
                    "model.to(torch.bfloat16)."
                ),
                for_pytorch(
                    "Under torch.autocast, frozen weights are converted in each forward pass: store them in its type."
                ),
                for_pytorch(
                    "For quantised weights, use kernels that convert while they multiply (torchao, Marlin)."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=without_calls(replay, nodes),
        )


def _converting(analysis: Analysis, replay: Replay) -> BOOL:
    """The calls inside of conversions of weights that need no gradient."""
    trace, host = analysis.trace, replay.host
    operator = surroundings_of(analysis).whole_operator
    found = np.zeros(len(host), bool)
    calls = np.flatnonzero(operator >= 0)
    for activity, mine in analysis.threads.by_thread(host.event[calls]):
        converting = _of_weights(trace, activity.whole_operators)
        found[calls[mine]] = np.isin(operator[calls[mine]], converting)
    return found


def _of_weights(trace: Trace, operators: I64) -> I64:
    """The operators, in order, that make the weights of the product behind them out of others of their shape."""
    product = named(trace, operators, _WEIGHTS_OF.__contains__)
    converts, beside = (named(trace, operators, each.__contains__) for each in (_CONVERTS, _BESIDE))
    if not product.any() or not converts.any():
        return operators[:0]
    sequence = trace.attribute(Attribute.SEQUENCE, operators, -1)
    place = np.array([_WEIGHTS_OF[trace.name(each)] for each in operators[product].tolist()], np.int64)
    count = len(operators)
    shape = _shapes(
        trace,
        np.concatenate((operators, operators[product])),
        np.concatenate((np.zeros(count, np.int64), place)),
    )
    first, weights = shape[:count], np.full(count, -1)
    weights[product] = shape[count:]
    found, at = np.zeros(len(operators), bool), np.flatnonzero(product & (weights >= 0))
    makes, behind = np.zeros(len(at), bool), at
    parts: list[BOOL] = []
    for _ in range(FAR):
        near = behind > 0
        at, behind, makes = at[near], behind[near] - 1, makes[near]
        parts = [each[near] for each in parts]
        near = beside[behind]
        at, behind, makes = at[near], behind[near], makes[near]
        parts = [each[near] for each in parts]
        mine = (first[behind] == weights[at]) & (sequence[behind] == sequence[at])
        makes |= mine & converts[behind]
        parts.append(mine)
        for back, part in enumerate(reversed(parts)):
            found[behind[part & makes] + back] = True
    return operators[found]


def _shapes(trace: Trace, operators: I64, place: I64) -> I64:
    """Numbers of the shapes of an input of each operator, alike where the shapes are; -1 without two dimensions."""
    dims = trace.attribute(Attribute.INPUT_DIMS, operators, -1)
    rows, which = np.unique(np.stack((dims, place), axis=1), axis=0, return_inverse=True)
    known: dict[str, int] = {}
    numbers = []
    for text, index in rows.tolist():
        inputs = inputs_in(trace.strings[text]) if text >= 0 else []
        shape = inputs[index] if index < len(inputs) else []
        numbers.append(known.setdefault(str(shape), len(known)) if len(shape) > 1 else -1)
    return np.array(numbers, np.int64)[which.reshape(-1)]
