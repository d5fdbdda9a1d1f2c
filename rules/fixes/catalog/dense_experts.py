"""Mixtures of experts in which every expert computes all tokens, although few of them are sent to each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from parsers.model import F64, I64, Attribute, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import durations_times, share_of, together, without_calls
from rules.fixes.forms.graph_passes import computed_again
from rules.kernels.recorded_shapes import Shape, single_tensors_in, tensors_in
from rules.remedies.remedy import pytorch_remedy
from rules.replay.origins import called_operators
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

MIN_EXPERTS = 4
MIN_TOKENS = 64  # fewer take each expert as long as reading its weights does
MAX_SENT = 0.5  # of the pairs of a token and an expert: of more, little is saved
USUAL_EXPERTS = 2  # of a token, where no shape says how many are picked
NEAR = 12  # operators behind the choice, one of which is given what was chosen
FAR = 4096  # operators from the choice to the last expert
# of what the chosen pairs take: gathering their rows and adding them up again costs time, and experts get unequal parts
JOINED, EVEN, UNEVEN = 1.3, 1.0, 2.0
_PICKS_ONE = aten("argmax max")
_PICKS = aten("topk") | _PICKS_ONE
_PRODUCTS = aten("linear matmul mm addmm")
_BATCHED = aten("bmm baddbmm matmul einsum")
_WEIGHS = aten("mul mul_ addcmul addcmul_")
_JOINS = aten("stack cat")

_CODE = """gate, expert = router(x).softmax(-1).topk(2)                  # x: tokens x width
order = expert.flatten().argsort()                            # the pairs of a token and an expert, by expert
rows = x[order // 2].view(experts, -1, width)                 # as many for each, padded to a capacity if need be
out = torch.bmm(F.gelu(torch.bmm(rows, w1)), w2).flatten(0, 1) * gate.flatten()[order, None]
y = torch.zeros_like(x).index_add(0, order // 2, out)
# not sum(weight[:, e, None] * experts[e](x) for e in range(len(experts)))"""


@dataclass(frozen=True, slots=True, eq=False)
class DenseExperts:
    """Operators of experts that compute all tokens, and how many experts there are.

    Of each operator: the part of the pairs that is chosen, and of how many alike it is the first; 0 for the others.
    """

    operators: I64
    chosen: F64
    alike: I64
    experts: int


@fix
class SendTokensToExperts:
    id = "send-tokens-to-experts"
    explanation = f"""
When it applies
    The largest of some rows are picked (topk, argmax, max), as many rows as a layer has tokens and at least
    {MIN_EXPERTS} experts in each. Behind that, the same products are called for each expert with all the tokens, and
    each result is multiplied by a column of weights, or all are stacked; or one batched product does so for all
    experts. At most half of the pairs of a token and an expert are chosen. That takes at least 5 % of the GPU's time.
    Shapes must be recorded.

What is changed in the replay
    All experts are called at once. Of the GPU's time for all of that, and for its gradients, {JOINED} times as much
    remains as the chosen part of the pairs takes.

What makes it more or less
    Gathering rows and adding them up, and how unevenly tokens are sent: {EVEN:.0f} to {UNEVEN:.0f} times.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        whole, called = surroundings_of(analysis).whole_operator, called_operators(analysis)
        operator = np.where(computed_again(analysis, replay), whole, called)
        found = dense_experts(analysis, operator, gradients=whole[whole != operator])
        nodes, launch = np.isin(operator, found.operators), replay.device.launch
        share = share_of(replay, nodes[launch])
        if share < MIN_GPU_SHARE:
            return
        order = np.argsort(found.operators)
        place = order[np.searchsorted(found.operators, operator[nodes], sorter=order)]
        chosen, alike = np.ones(len(nodes)), np.ones(len(nodes))
        chosen[nodes], alike[nodes] = found.chosen[place], found.alike[place]
        others = without_calls(replay, alike == 0)
        low, expected, high = (
            together(others, durations_times(nodes[launch], (np.minimum(chosen * each, 1.0) * alike)[launch]))
            for each in (UNEVEN, JOINED, EVEN)
        )
        yield Proposal(
            title=(
                f"Give each expert its own tokens only: {percent(share)} of the GPU's time computes all tokens with "
                f"all {found.experts} experts, and {percent(float(found.chosen.mean()))} of that is used"
            ),
            categories=(Category.SLOW_OPERATOR, Category.GPU_BOUND, Category.RECOMPUTATION),
            culprit="experts",
            problem="Every expert computes all tokens",
            remedy=pytorch_remedy(
                "Sort the tokens by the expert that they are sent to, and multiply each expert's rows alone: one "
                "batched product for rows padded to a capacity, or torch._grouped_mm, or the kernels of MegaBlocks.",
                "Where a loop over the experts stays, index_add_ the results of x[tokens_of_expert].",
                code=_CODE,
            ),
            expected=expected,
            low=low,
            high=high,
            depends_on="how evenly tokens are sent to the experts, and what gathering them takes",
        )


def dense_experts(analysis: Analysis, operator: I64, gradients: I64) -> DenseExperts:
    """The experts of all layers that compute all tokens, among what threads do that call these operators.

    What computes gradients looks like experts, too: a product for the gradient of each layer, with equal sizes.
    """
    trace = analysis.trace
    operators, alike, chosen, experts = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)], 0
    if Attribute.INPUT_DIMS in trace.attributes:
        for activity, _ in analysis.threads.by_thread(distinct_values(operator[operator >= 0])):
            called = activity.whole_operators
            called = called[~np.isin(called, gradients)]
            picks = np.flatnonzero(named(trace, called, _PICKS.__contains__))
            for at, end in zip(picks.tolist(), np.append(picks[1:], len(called)).tolist(), strict=False):
                behind = called[at : min(end, at + FAR)]
                for part, tokens, many in _choices(trace, behind):
                    mine = _on_all_tokens(trace, behind, tokens, many)
                    if len(mine):
                        operators.append(mine)
                        chosen.append(np.full(len(mine), part))
                        alike.append(_first_of_alike(trace, mine))
                        experts = many
                        break
    return DenseExperts(np.concatenate(operators), np.concatenate(chosen), np.concatenate(alike), experts)


def _first_of_alike(trace: Trace, operators: I64) -> I64:
    """For the first of the operators with the same name and sizes how many there are; 0 for the others."""
    kinds = np.column_stack(
        (trace.events.name[operators], trace.attribute(Attribute.INPUT_DIMS, operators, -1))
    )
    _, first, count = np.unique(kinds, axis=0, return_index=True, return_counts=True)
    found = np.zeros(len(operators), np.int64)
    found[first] = count
    return found


def _choices(trace: Trace, behind: I64) -> Iterator[tuple[float, int, int]]:
    """What an operator may have chosen: the part of the pairs of tokens and experts, and how many of both there are."""
    dims = trace.attribute(Attribute.INPUT_DIMS, behind[: 1 + NEAR], -1).tolist()
    shapes = [single_tensors_in(trace.strings[each]) if each >= 0 else [] for each in dims]
    whole = shapes[0][0] if shapes[0] else ()
    if len(whole) < 2:
        return
    for many in sorted({whole[0], whole[-1]}):
        if many < MIN_EXPERTS or math.prod(whole) // many < MIN_TOKENS:
            continue
        usual = 1 if trace.name(int(behind[0])) in _PICKS_ONE else USUAL_EXPERTS
        parts = [
            math.prod(each) / math.prod(whole)
            for near in shapes[1:]
            for each in near
            if _is_part(each, whole)
        ]
        part = max([each for each in parts if each > 0], default=usual / many)
        if part <= MAX_SENT:
            yield part, math.prod(whole) // many, many


def _is_part(shape: Shape, whole: Shape) -> bool:
    """Whether it has the same sizes but for a smaller one, and so may be what was chosen."""
    return (
        len(shape) == len(whole)
        and sum(map(int.__ne__, shape, whole)) == 1
        and math.prod(shape) < math.prod(whole)
    )


def _on_all_tokens(trace: Trace, behind: I64, tokens: int, many: int) -> I64:
    """The operators of as many experts that each compute all tokens; none where they do not."""
    dims = trace.attribute(Attribute.INPUT_DIMS, behind, -1).tolist()
    calls = list(zip(map(trace.name, behind.tolist()), dims, strict=True))
    by_dims = {each: trace.strings[each] if each >= 0 else "[]" for each in set(dims)}

    def places(names: frozenset[str], fits: Callable[[list[Shape]], bool]) -> list[int]:
        known = {key: fits(tensors_in(by_dims[key[1]])) for key in set(calls) if key[0] in names}
        return [place for place, key in enumerate(calls) if known.get(key)]

    weighs = places(_WEIGHS, lambda shapes: _weighs(shapes, tokens))
    joins = places(
        _JOINS, lambda shapes: len(shapes) == many and {math.prod(each[:-1]) for each in shapes} == {tokens}
    )
    least = many - 1  # what is computed again for the backward pass stops in the last one
    end = weighs[-1] if len(weighs) >= least else joins[0] if joins else 0
    products = [each for each in places(_PRODUCTS, lambda shapes: _is_layer(shapes, tokens)) if each < end]
    often = Counter(calls[each] for each in products)
    mine = [each for each in products if often[calls[each]] >= least]
    rounds = np.count_nonzero(np.diff(np.searchsorted(mine, weighs), prepend=0))
    if mine and (rounds >= least or joins):
        others = set(products) - set(mine)
        return behind[[each for each in range(mine[0], end + 1) if each not in others]]
    batched = places(_BATCHED, lambda shapes: _is_batched(shapes, tokens, many))
    return behind[batched[0] : batched[-1] + 1] if batched else behind[:0]


def _weighs(shapes: list[Shape], tokens: int) -> bool:
    """Whether a row for each token is multiplied by a number for each."""
    sizes = sorted(map(math.prod, shapes))
    return len(shapes) > 1 and sizes[-2] == tokens < sizes[-1] and sizes[-1] % tokens == 0


def _is_layer(shapes: list[Shape], tokens: int) -> bool:
    """Whether a row for each token is multiplied by a matrix of weights."""
    data = [each for each in shapes if len(each) > 1 and math.prod(each[:-1]) == tokens]
    return bool(data) and any(
        len(each) == 2 and each is not data[0] and data[0][-1] in each for each in shapes
    )


def _is_batched(shapes: list[Shape], tokens: int, many: int) -> bool:
    """Whether all tokens meet a matrix of weights of each expert at once."""
    weights = [each for each in shapes if len(each) == 3 and each[0] == many and tokens not in each]
    data = [each for each in shapes if each[:-1] in ((tokens,), (many, tokens), (tokens, many))]
    return any(rows[-1] in matrix[1:] for rows in data for matrix in weights)
