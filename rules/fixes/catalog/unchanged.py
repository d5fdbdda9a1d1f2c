"""What does not change and is computed again: weights that are converted or normalised, results of a frozen network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.analysis.names.regions import is_optimizer_step
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import optimizer_calls, per_step, share_of, unchanged, without_calls
from rules.fixes.forms.converted_weights import converts_weights, makes_weights, normalises_weights
from rules.fixes.forms.written import Work, called_in_order, calls_of, costly_calls, work_in_order
from rules.kernels.recorded_shapes import Shape, inputs_of_event, tensors_by_dims
from rules.losses.cpu_work import MIN_STEPS
from rules.remedies.remedy import pytorch_remedy, remedy
from rules.replay.origins import called_operators
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

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


_NORMALISES = regex(r"aten::(_weight_norm|linalg_vector_norm|norm|dot|vdot|std\w*|var\w*)$")
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
    Or, where shapes were recorded, operators right before a layer work on its weights alone (as for spectral_norm).

What is changed in the replay
    All of that is gone, with the time before the launches. At least, that time stays.

What makes it more or less
    How much of the time before a launch Python takes to compute the weights as a parametrisation: that goes, too.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if is_training(analysis):
            return
        trace, normalises = analysis.trace, normalises_weights(replay)
        made, lasts = makes_weights(analysis)
        nodes = normalises | calls_of(analysis, made)
        steps = distinct_values(replay.host.step[nodes])
        if len(steps) < max(replay.steps, MIN_STEPS):
            return
        is_norm = bool(normalises.any() or named(trace, made, _NORMALISES.match).any())
        what, how = ("normalisation", "normalised") if is_norm else ("parametrisation", "computed")
        often = per_step(replay, float(np.isin(lasts, called_operators(analysis)).sum() or normalises.sum()))
        yield Proposal(
            title=(
                f"Fold the weight {what} into the weights: {often:,.0f} weights are {how} again {replay.in_step}"
            ),
            categories=(Category.RECOMPUTATION, Category.LAUNCH_BOUND, Category.HOST_BOUND),
            culprit="aten::_weight_norm" if is_norm else "parametrised weights",
            problem=f"Weights are {how} again in each call",
            remedy=pytorch_remedy(
                "Remove the parametrisation once the model is loaded and no longer trained: the weights then stay "
                "as they are normalised.",
                code=_FOLDING_CODE,
            ),
            expected=without_calls(replay, nodes),
            low=without_calls(replay, nodes, gaps=0.0),
            depends_on="how long Python takes to compute a parametrised weight",
        )


_LAYER = regex(r"aten::(conv[123]d|linear)$")
# what makes a sample another one each time, or a network
_DRAWS = regex(
    r"aten::(rand\w*|normal_?|uniform_|bernoulli_?|multinomial|poisson|exponential_|(\w+_)?dropout_?)$"
)
_DROPOUT = regex(r"aten::(\w+_)?dropout_?$")
_WRITES = regex(r"aten::(_foreach_)?(lerp|mul|add|sub|addcmul|copy)_$")
_CLEARS = regex(r"aten::(_foreach_)?zero_$")
# what hands on something new, or a part of something
_TAKES = regex(
    r"aten::(slice|select|narrow|index\w*|unbind|split\w*|chunk|gather|copy_|to|_to_copy|embedding|randperm)$"
)


def unchanged_passes(analysis: Analysis, replay: Replay) -> tuple[I64, bool]:
    """The operators of passes through layers, in steps of a training, through which no gradient flows.

    Nothing is drawn in a step before their end, and nothing but the optimizer writes into tensors with the shapes of
    their weights, as moving averages do: so a sample that comes again gives what it gave. Shapes must be recorded.

    Then whether they are given the same in each step: the optimizer updates none of their weights, each step begins
    with a layer of theirs, and nothing new is taken in it. A picture that is trained may be what they are given: as
    gradients flow through the same layers later, these give the same once more.
    """
    found = [np.empty(0, np.int64)]
    trace, table = analysis.trace, analysis.trace.events
    regions = table.of_kind(EventKind.REGION)
    steps = table.by_start(regions[named(trace, regions, is_optimizer_step)])
    if not len(steps) or Attribute.INPUT_DIMS not in trace.attributes:
        return found[0], False
    function, calls = autograd_functions(analysis), called_operators(analysis)
    launching = np.zeros(len(function), bool)
    launching[replay.device.launch] = True
    differentiated = distinct_values(calls[launching & (function >= 0)])
    works = distinct_values(calls[launching & (function < 0)])
    written: set[Shape] = set()
    trained: set[Shape] = set()
    differentiable: set[Shape] = set()
    first: set[int] = set()
    takes = False
    for called in called_in_order(analysis):
        turn = np.searchsorted(table.end[steps], table.start[called])
        updating = table.start[called] >= table.start[steps[np.minimum(turn, len(steps) - 1)]]
        flows, working = np.isin(called, differentiated), np.isin(called, works)
        dims = trace.attribute(Attribute.INPUT_DIMS, called[updating], -1)
        trained.update(*tensors_by_dims(trace, dims).values())
        takes |= bool((named(trace, called, _TAKES.match) & working & ~updating).any())
        working &= ~named(trace, called, _CLEARS.match)
        differentiable |= _weights_of(trace, called[flows & named(trace, called, _LAYER.match)])
        for each in distinct_values(turn[flows & ~updating]):
            mine = np.flatnonzero((turn == each) & ~updating)
            mine = mine[: int(np.flatnonzero(flows[mine])[-1]) + 1]
            written |= _written(trace, called[mine])
            draws = named(trace, called[mine], _DRAWS.match)
            draws &= working[mine] | ~named(trace, called[mine], _DROPOUT.match)  # else it does nothing
            drawn = int(np.append(np.flatnonzero(draws), len(mine))[0])
            mine = mine[:drawn][working[mine[:drawn]]]  # views belong to what reads them
            first.update(called[mine[:1]].tolist())
            edges = np.flatnonzero(np.diff(flows[mine])) + 1
            found += [called[one] for one in np.split(mine, edges) if len(one) and not flows[one[0]]]
    passes = [(each, np.flatnonzero(named(trace, each, _LAYER.match))) for each in found]
    kept = [
        (each[layers[0] :], weights, int(each[0]) in first and not layers[0])
        for each, layers in passes
        if len(layers) and written.isdisjoint(weights := _weights_of(trace, each[layers]))
    ]
    same = not takes and all(begins and weights <= differentiable - trained for _, weights, begins in kept)
    return np.concatenate([each for each, _, _ in kept] or found[:1]), same


def _written(trace: Trace, operators: I64) -> set[Shape]:
    """The shapes of what operators write into in place."""
    writes = _one_of_each(trace, operators[named(trace, operators, _WRITES.match)])
    return {tuple(one) for each in writes for one in _first_tensors(inputs_of_event(trace, each))}


def _first_tensors(inputs: list[list[Any]]) -> list[list[int]]:
    """The sizes of the first tensor that is handed over, or of those of the first list."""
    first = inputs[0] if inputs else []
    return [each for each in first if each] if first and isinstance(first[0], list) else [first]


def _one_of_each(trace: Trace, operators: I64) -> list[int]:
    """An operator of each set of shapes."""
    _, first = np.unique(trace.attribute(Attribute.INPUT_DIMS, operators, -1), return_index=True)
    return [int(each) for each in operators[first]]


def _weights_of(trace: Trace, layers: I64) -> set[Shape]:
    inputs = (inputs_of_event(trace, each) for each in _one_of_each(trace, layers))
    return {tuple(each[1]) for each in inputs if len(each) > 1}


MIN_PAIRS = 2  # of evaluations in a row
_PRODUCT = regex(r"aten::(mm|matmul|linear|bmm|addmm|conv[123]d|cdist)$")
_MOVES = (("aten::mul", "aten::add"), ("aten::mul", "aten::sub"), ("aten::add_",), ("aten::addcmul_",))
_ADDS = aten("add sub add_ sub_ addcmul_")


def evaluated_twice(analysis: Analysis, replay: Replay) -> I64:
    """The operators that evaluate for the second time what was not moved in between, as half steps do at both ends.

    The same operators with the same shapes run again and again, and something is added to at the end of each; behind
    every second one a multiple of one tensor is added to another besides. What is evaluated depends on the latter.
    """
    found = [np.empty(0, np.int64)]
    told = EventKind.CPU_OP in analysis.trace.kinds
    if optimizer_calls(analysis).any() if told else is_training(analysis):
        return found[0]
    for work in work_in_order(analysis, replay):
        is_product = {each: _PRODUCT.match(each) is not None for each in set(work.operators)}
        products = np.fromiter(map(is_product.__getitem__, work.operators), bool, len(work.operators))
        if products.any():
            costs = np.bincount(work.kind, work.ns * products)
            places = np.flatnonzero(work.kind == int(costs.argmax()))
            found += [work.events[begin:end] for begin, end in _second_ones(work, places)]
    return np.concatenate(found)


def _second_ones(work: Work, places: I64) -> list[tuple[int, int]]:
    """Where evaluations begin and end that follow one without a move."""
    found: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    at = 0
    while at + 2 < len(places):
        one, two, three = places[at : at + 3].tolist()
        if _moves_behind(work, one, two, three):
            run.append((two, three))
            at += 2
            continue
        found += run if len(run) >= MIN_PAIRS else []
        run, at = [], at + 1
    return found + (run if len(run) >= MIN_PAIRS else [])


def _moves_behind(work: Work, one: int, two: int, three: int) -> bool:
    """Whether what follows the second place is what follows the first one, and a move behind its last addition."""
    short, long = work.kind[one:two], work.kind[two:three]
    more = len(long) - len(short)
    if not 0 < more <= max(map(len, _MOVES)):
        return False
    same = int(np.append(short != long[: len(short)], True).argmax())
    rest = len(short) - same
    if rest and (short[same:] != long[len(long) - rest :]).any():
        return False
    # the move may look like what comes before it: then it is the last one of these
    names = work.operators[two + same - 1 : two + same + more]
    return names[0] in _ADDS and tuple(names[1:]) in _MOVES


KEEP_RESULT = remedy(
    "Run the network once for what does not change, before the loop, and keep what it returns.",
    "Of a fixed set of samples, such as preferences or texts with a reference model, run it once for each sample ahead "
    "of the training, and store what it says of them beside them.",
    for_pytorch("Do that under torch.no_grad(), so that nothing else is kept."),
    code=for_pytorch("""with torch.no_grad():
    wanted = features(style)                  # once
for _ in range(steps):
    loss = loss_of(features(picture), wanted)"""),
)

EVALUATE_ONCE = remedy(
    "Keep the gradient (the force) from the end of a step for the beginning of the next: the place has not moved in "
    "between.",
    "Between two whole steps, both half kicks are then one, with twice the factor.",
    code=for_pytorch("""force = gradient(place)
for _ in range(steps):
    speed = speed + 0.5 * dt * force
    place = place + dt * speed
    force = gradient(place)                   # once for each place
    speed = speed + 0.5 * dt * force"""),
)


_AGAIN = (Category.RECOMPUTATION, Category.GPU_BOUND)


@fix
class KeepResult:
    id = "keep-result"
    explanation = """
When it applies
    In each step of a training with an optimizer, operators with layers among them have no part in the backward pass.
    Nothing is drawn in the step before they end, as augmentations and generated texts are, and nothing but the
    optimizer writes into tensors with the shapes of their weights, as moving averages do. That takes at least 5 % of
    the GPU's time. Shapes must be recorded.

What is changed in the replay
    All of that is gone. There is a single estimate where steps begin with them, nothing is copied, cut or looked up,
    and gradients flow through the
    same layers to something else than their weights, such as a picture.

What makes it more or less
    Whether what goes in comes again, and the network stays as it is, which no recording shows: if not, nothing is
    gained.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        operators, same = unchanged_passes(analysis, replay)
        nodes, share = costly_calls(analysis, replay, operators)
        if not share:
            return
        yield Proposal(
            title=f"Keep what the frozen network returned: {percent(share)} of the GPU's time runs it again"
            if same
            else f"Keep what the frozen network returns for each sample: it takes {percent(share)} of the GPU's time",
            categories=_AGAIN,
            culprit="a frozen network",
            problem="A frozen network is run again in each step",
            remedy=KEEP_RESULT,
            expected=without_calls(replay, nodes),
            low=unchanged,
            redesign=not same,
            depends_on=f"whether it is asked of the same {'in each step' if same else 'samples again'}",
        )


@fix
class EvaluateOnce:
    id = "evaluate-once"
    explanation = """
When it applies
    No optimizer updates anything, and the same operators, with a product among them, run again and again, with an
    addition at the end of each. Behind every second one, and only there, a multiple of one tensor is added to another,
    as an integrator moves a place by a speed. The second ones, with their gradients, take at least 5 % of the GPU's
    time. Shapes must be recorded, or kernels alone.

What is changed in the replay
    Every second one is gone, with its gradients.

What makes it more or less
    Whether what they work on is the same in between, which no recording shows: if not, nothing is gained.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, share = costly_calls(analysis, replay, evaluated_twice(analysis, replay))
        if not share:
            return
        yield Proposal(
            title=f"Evaluate once per place: {percent(share)} of the GPU's time probably repeats the last evaluation",
            categories=_AGAIN,
            culprit="the same evaluation twice",
            problem="The same thing is evaluated twice in a row",
            remedy=EVALUATE_ONCE,
            expected=without_calls(replay, nodes),
            low=unchanged,
            depends_on="whether anything is moved in between",
        )
