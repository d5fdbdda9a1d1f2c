"""What is written out in more steps than it takes: low-rank updates, inverses, sorting twice, single elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace, derived
from parsers.model.arrays import distinct_values, per_value
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.findings.category import Category
from rules.fixes.backward import assigns_to_part, autograd_functions, backward_of
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import MIN_NS, durations_times, per_step, share_of, times, together, without_calls
from rules.fixes.forms.written import called_in_order, calls_of, costly_calls
from rules.fixes.loops.item_loops import in_loops
from rules.kernels.inverses import BEHIND, MAX_COLUMNS, MIN_ROWS, multiplied_inverses
from rules.kernels.recorded_shapes import Shape, begin_alike, fitting, inputs_in, single_tensors_in
from rules.remedies.costly_forms import SOLVE_INSTEAD
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

MIN_THINNER = 8  # times: the rank is so much smaller than both sides of the weights
NEAR = 4  # operators between multiplying out and the product with the weights: scaling, adding, converting
_PRODUCTS = frozenset({"aten::mm", "aten::matmul"})
_WEIGHTED = frozenset({"aten::linear", *_PRODUCTS})

_FACTORS_CODE = """y = F.linear(x, weight) + scale * F.linear(F.linear(x, a), b)   # two thin products
# not in each call: F.linear(x, weight + scale * (b @ a))

weight += scale * (b @ a)                                        # or once, when nothing is trained any more"""


@fix
class FactorsInTurn:
    id = "factors-in-turn"
    explanation = f"""
When it applies
    A product gives a matrix from two whose common side is at most an eighth of its own ones, and behind at most {NEAR}
    operators that work on a matrix of its shape there is a product with such a matrix as weights. Nothing updates a
    matrix of that shape. Work on matrices of that shape, and on their gradients, takes at least 5 % of the GPU's time.
    Shapes must be recorded.

What is changed in the replay
    What makes, scales, adds and differentiates matrices of that shape takes 4 us at most. The product with the weights,
    and that for the gradient of its data, stay.

What makes it more or less
    How many rows are multiplied: with more than the weights have, multiplying out may be quicker.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device = replay.device
        mine = _multiplied_out(analysis)[device.launch]
        share = share_of(replay, mine)
        if share < MIN_GPU_SHARE:
            return
        factor = np.minimum(MIN_NS / np.maximum(device.duration, 1.0), 1.0)
        yield Proposal(
            title=(
                f"Multiply by the factors of a low-rank update in turn: {percent(share)} of the GPU's time multiplies "
                "them out and adds them to the weights"
            ),
            categories=(Category.RECOMPUTATION, Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit="low-rank updates",
            problem="A low-rank update is multiplied out in each call",
            remedy=pytorch_remedy(
                "Multiply the data by one factor after the other, and add that to the layer's result.",
                "For inference, add the update to the weights once (merge_and_unload in peft).",
                code=_FACTORS_CODE,
            ),
            expected=durations_times(mine, factor),
        )


_FACTORIZES = "aten::linalg_lu_factor_ex"  # in an inverse: what solving does as well
LU_OF_INVERSE = (
    1 / 3
)  # of n rows: 2/3 of n^3 operations of 2 n^3, where the recording does not tell them apart
CHOLESKY_OF_LU = 1 / 2  # of a symmetric positive definite matrix: 1/3 of n^3 operations


@fix
class SolveInstead:
    id = "solve-instead"
    explanation = f"""
When it applies
    A matrix of at least {MIN_ROWS} rows is inverted, and at most {BEHIND} operators later one of its size is multiplied
    by at most {percent(MAX_COLUMNS)} as many columns. That, determinants of matrices of this size, and the gradients of
    both take at least 5 % of the GPU's time. Shapes must be recorded.

What is changed in the replay
    Of an inverse its LU factor remains (aten::linalg_lu_factor_ex, or {percent(LU_OF_INVERSE)}), and of its gradient
    nothing. Determinants are gone, as they come from the same factor, whose gradient then takes as many operations as
    that of the inverse. Where there are any, as a Gaussian needs them, it is a Cholesky factor, in half the time.

What makes it more or less
    Whether the matrix is symmetric and positive definite, as a covariance is, and whether the inverse is a result.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if Attribute.INPUT_DIMS not in analysis.trace.attributes:
            return
        found = [multiplied_inverses(analysis.trace, each) for each in called_in_order(analysis)]
        inverses, determinants = (
            np.concatenate([each[part] for each in found] or [np.empty(0, np.int64)]) for part in (0, 1)
        )
        nodes, again = calls_of(analysis, inverses), calls_of(analysis, determinants)
        share = share_of(replay, (nodes | again)[replay.device.launch])
        if not len(inverses) or share < MIN_GPU_SHARE:
            return
        what = "inverses and determinants" if len(determinants) else "inverses"
        backward = nodes & (autograd_functions(analysis) >= 0)
        factorizes = nodes & ~backward & surroundings_of(analysis).inside(_FACTORIZES.__eq__)
        of_inverse = factorizes.astype(np.float64) if factorizes.any() else np.full(len(nodes), LU_OF_INVERSE)
        with_lu, with_cholesky = (
            together(
                without_calls(replay, again),
                durations_times(
                    nodes[replay.device.launch],
                    np.where(backward, float(len(determinants) > 0), of_inverse * part)[replay.device.launch],
                ),
            )
            for part in (1.0, CHOLESKY_OF_LU)
        )
        yield Proposal(
            title=f"Solve instead of inverting matrices: {percent(share)} of the GPU's time goes to {what}",
            categories=(Category.SLOW_OPERATOR, Category.RECOMPUTATION, Category.GPU_BOUND),
            culprit="aten::inverse",
            problem="Matrices are inverted to be multiplied by a vector",
            remedy=SOLVE_INSTEAD,
            expected=with_cholesky if len(determinants) else with_lu,
            low=with_lu,
            high=with_cholesky if len(determinants) or not backward.any() else with_lu,
            depends_on="whether the matrix is positive definite, and the inverse needed for something else",
        )


def _multiplied_out(analysis: Analysis) -> BOOL:
    """The calls that make such a matrix, change it, or compute gradients by way of its own."""
    trace, operator = analysis.trace, surroundings_of(analysis).whole_operator
    found = np.zeros(len(operator), bool)
    if Attribute.INPUT_DIMS not in trace.attributes:
        return found
    known = np.flatnonzero(operator >= 0)
    dims = trace.attribute(Attribute.INPUT_DIMS, operator[known], -1)
    keys = distinct_values(dims[dims >= 0]).tolist()
    inputs = {each: inputs_in(trace.strings[each]) for each in keys}
    updated = {tuple(one) for each in inputs.values() for many in each if _is_list(many) for one in many}
    made = {each for each in _low_rank(analysis) if each[:2] not in updated}
    if not made:
        return found
    for each in keys:
        shapes = single_tensors_in(trace.strings[each])
        if any(_is_of(shapes, *sizes) for sizes in made):
            found[known[dims == each]] = True
    return found


def _low_rank(analysis: Analysis) -> Iterator[tuple[int, int, int]]:
    """The sides of weights to which a product of two thin matrices is added, and how thin these are."""
    trace = analysis.trace
    for called in called_in_order(analysis):
        dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
        name = trace.events.name[called]
        thin = {
            key: sizes
            for key in distinct_values(dims[dims >= 0]).tolist()
            if (sizes := _thin(single_tensors_in(trace.strings[key])))
        }
        for at in np.flatnonzero(np.isin(dims, list(thin))).tolist():
            rows, columns, rank = thin[int(dims[at])]
            if trace.strings[int(name[at])] not in _PRODUCTS:
                continue
            for place in range(at + 1, min(at + 2 + NEAR, len(called))):
                shapes = single_tensors_in(trace.strings[int(dims[place])]) if dims[place] >= 0 else []
                if trace.strings[int(name[place])] in _WEIGHTED and _is_layer(shapes, *thin[int(dims[at])]):
                    yield rows, columns, rank
                if (rows, columns) not in shapes:
                    break


def _thin(shapes: list[Shape]) -> tuple[int, int, int] | None:
    """The sides of what a product of two matrices gives, and the one that they share, if that is much smaller."""
    if len(shapes) != 2 or any(len(each) != 2 for each in shapes) or shapes[0][1] != shapes[1][0]:
        return None
    (rows, rank), (_, columns) = shapes
    return (rows, columns, rank) if MIN_THINNER * rank <= min(rows, columns) else None


def _is_layer(shapes: list[Shape], rows: int, columns: int, rank: int) -> bool:
    """Whether data of another number of rows is multiplied by weights of these sides."""
    if len(shapes) < 2 or shapes[1] not in ((rows, columns), (columns, rows)):
        return False
    return math.prod(shapes[0][:-1]) not in (rows, columns, rank) and shapes[0][-1] in (rows, columns)


def _is_of(shapes: list[Shape], rows: int, columns: int, rank: int) -> bool:
    """Whether an operator makes such a matrix, changes it, or multiplies it by one of the thin ones."""
    whole = (rows, columns)
    if len(shapes) == 2 and all(len(each) == 2 for each in shapes) and shapes[0] != shapes[1]:
        (first, _), (_, last) = shapes
        return (first, last) == whole or (whole in shapes and rank in (first, last))
    return bool(shapes) and all(each == whole for each in shapes)


def _is_list(sizes: list[object]) -> bool:
    return bool(sizes) and isinstance(sizes[0], list)


LEFT_OF_SORTING = 0.1  # of a sort: what comparing, or writing each place once, takes
_SORTS = frozenset({"aten::sort", "aten::argsort"})
_PICKS_RANKS = aten("gather index index_select take_along_dim select")
_ORDER = ('["long', '["int')  # the type of what is sorted, if that is an order

_RANKING_CODE = """target = scores.gather(1, wanted)                 # the rank of one item in each row
rank = (scores > target).sum(1)                   # not scores.argsort(1, descending=True).argsort(1).gather(1, wanted)

order = scores.argsort(1, descending=True)        # the ranks of all items
ranks = torch.empty_like(order).scatter_(1, order, torch.arange(n, device=order.device).expand_as(order))"""


@fix
class RankWithoutSorting:
    id = "rank-without-sorting"
    explanation = """
When it applies
    aten::sort or aten::argsort is called with whole numbers right after another sort of the same shape, which gives
    such an order. Both take at least 5 % of the GPU's time. Shapes and types must be recorded.

What is changed in the replay
    A tenth of the second sort's time on the GPU remains; of the first one's as well if some of the ranks are picked
    next.

What makes it more or less
    How long the rows are: short ones are sorted about as quickly as they are read.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        first, second, picked = _sorted_twice(analysis)
        _, share = costly_calls(analysis, replay, np.concatenate((first, second)))
        if not share:
            return
        unneeded = np.concatenate((second, first[picked]))
        yield Proposal(
            title=f"Find ranks without sorting twice: {percent(share)} of the GPU's time sorts rows, then their order",
            categories=(Category.SLOW_OPERATOR,),
            culprit="aten::argsort",
            problem="Ranks are found by sorting twice",
            remedy=pytorch_remedy(
                "The rank of one item is how many others have a higher score: compare and count.",
                "For the ranks of all items, write each place where the first sort says: scatter_.",
                code=_RANKING_CODE,
            ),
            expected=durations_times(calls_of(analysis, unneeded)[replay.device.launch], LEFT_OF_SORTING),
        )


def _sorted_twice(analysis: Analysis) -> tuple[I64, I64, BOOL]:
    """Sorts, those of the orders that they give, and whether some of these ranks are picked next."""
    trace = analysis.trace
    found: list[tuple[I64, I64, BOOL]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))]
    if {Attribute.INPUT_DIMS, Attribute.INPUT_TYPES} <= trace.attributes.keys():
        for called in called_in_order(analysis):
            sorts = named(trace, called, _SORTS.__contains__)
            at = np.flatnonzero(sorts[:-1] & sorts[1:])
            at = at[_of_order(trace, called[at + 1]) & ~_of_order(trace, called[at])]
            at = at[fitting(trace, called[at], called[at + 1], fits=begin_alike)]
            behind = np.minimum(at + 2, len(called) - 1)
            picked = named(trace, called[behind], _PICKS_RANKS.__contains__) & (behind > at + 1)
            found.append((called[at], called[at + 1], picked))
    first, second, picked = (np.concatenate(each) for each in zip(*found, strict=True))
    return first, second, picked


def _of_order(trace: Trace, operators: I64) -> BOOL:
    """Which operators are given whole numbers first."""
    types = trace.attribute(Attribute.INPUT_TYPES, operators, -1)
    return np.array([each >= 0 and trace.strings[each].startswith(_ORDER) for each in types.tolist()], bool)


MIN_WRITES = 8  # into one tensor: fewer are edges of a field, or a pair of halves
MAX_PARTS = 64  # elements that it has: more are times or places, of which each may need the one before
_SELECT = "aten::select"
_WRITES = frozenset(("aten::copy_", "aten::fill_"))
_MAKES = regex(r"aten::(new_)?(zeros|empty|ones|full|eye|repeat|clone|rand|randn)(_like)?$")
_BESIDE = regex(
    r"aten::(select|copy_|fill_|lift_fresh|detach_?|to|slice|unsqueeze|(add|sub|rsub|mul|div|neg|exp|log|sqrt|rsqrt|pow"
    r"|abs|sin|cos|tan|atan2|sinh|cosh|tanh|square|reciprocal|addcmul|clamp|where|sigmoid)_?)$"
)


@dataclass(frozen=True, slots=True, eq=False)
class Filling:
    """A tensor that is written element by element: the writes (events), and when what computes them began and ended."""

    writes: I64
    start: int
    end: int


@derived
def fillings(analysis: Analysis) -> tuple[Filling, ...]:
    """The tensors of which at least eight elements are chosen by two indices each, computed alone and written.

    Only operators that work on single elements lie between, so none of the elements needs the others.
    """
    if Attribute.INPUT_DIMS not in analysis.trace.attributes:
        return ()
    return tuple(each for operators in called_in_order(analysis) for each in _of_thread(analysis, operators))


def _of_thread(analysis: Analysis, operators: I64) -> Iterator[Filling]:
    trace = analysis.trace
    selects = named(trace, operators, _SELECT.__eq__)
    writes = named(trace, operators, _WRITES.__contains__)
    writes[:2] = False
    places = np.flatnonzero(writes)
    places = places[selects[places - 1] & selects[places - 2]]
    if len(places) < MIN_WRITES:
        return
    dims = trace.attribute(Attribute.INPUT_DIMS, operators, -1)
    whole = dims[places - 2]
    triples = np.column_stack((whole, dims[places - 1], dims[places]))

    def is_element(triple: list[int]) -> bool:
        return min(triple) >= 0 and _is_element(*(trace.strings[each] for each in triple))

    elements = per_value(triples, is_element, bool)
    others = ~named(trace, operators, _BESIDE.match) | named(trace, operators, _MAKES.match)
    run = np.cumsum(others)[places]
    places, whole, run = places[elements], whole[elements], run[elements]
    edges = np.flatnonzero(np.concatenate(([True], (np.diff(run) != 0) | (np.diff(whole) != 0), [True])))
    breaks = np.flatnonzero(others)
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if last - first >= MIN_WRITES:
            before = int(np.searchsorted(breaks, places[first])) - 1
            begins = operators[breaks[before]] if before >= 0 else operators[0]
            yield Filling(
                operators[places[first:last]],
                int(trace.events.end[begins]),
                int(trace.events.end[operators[places[last - 1]]]),
            )


def _is_element(whole: str, row: str, written: str) -> bool:
    """Whether what is written was chosen out of a row of the whole, which has few elements of this size."""
    shapes = [single_tensors_in(each)[:1] for each in (whole, row, written)]
    if not all(shapes):
        return False
    (of_whole,), (of_row,), (of_written,) = shapes
    if not len(of_whole) - 1 == len(of_row) == len(of_written) + 1:
        return False
    return math.prod(of_written) * MIN_WRITES <= math.prod(of_whole) <= math.prod(of_written) * MAX_PARTS


MIN_IN_STEP = 32  # elements: fewer are not worth the work
LEFT = 0.2  # of the calls that compute elements, once they do so for all of a tensor: docs/predictions.md


@fix
class WholeTensors:
    id = "whole-tensors"
    explanation = """
When it applies
    In a step, 32 or more elements are chosen by two indices and assigned, eight or more of a tensor with at most 64
    elements, with nothing but operators on single elements in between. They are in no loop that another fix joins.
    Shapes must be recorded.

What is changed in the replay
    Of the assignments, one for each tensor remains, and of their backward passes, which copy the whole tensor for each.
    Of what computes the elements, forward and backward, a fifth remains. At least, all of it stays. At most, all
    tensors of a step are computed at once.

What makes it more or less
    Whether the elements can be had from a few operators on whole tensors, and whether all tensors can be made at once.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        host, loops = replay.host, in_loops(analysis, replay)
        found = []
        for each in fillings(analysis):
            first, last = np.searchsorted(host.start, (each.start, each.end)).tolist()
            if 0 < first < last and not loops[first:last].any():
                found.append((each, first, last))
        written = per_step(replay, float(sum(len(each.writes) for each, _, _ in found)))
        if written < MIN_IN_STEP:
            return
        stretches = np.zeros(len(host), bool)
        for _, first, last in found:
            stretches[first:last] = True
        writes = calls_of(analysis, np.concatenate([each.writes[1:] for each, _, _ in found])) & stretches
        backward = backward_of(analysis, replay, [(first - 1, last - 1) for _, first, last in found])
        function = autograd_functions(analysis)
        copying = backward & (function >= 0)
        copying[copying] = named(analysis.trace, function[copying], assigns_to_part)
        gone = writes | copying
        rest = (stretches | backward) & ~gone
        operations = rest[replay.device.launch]
        most = LEFT / max(per_step(replay, float(len(found))), 1.0)
        without = without_calls(replay, gone)
        yield Proposal(
            title=f"Compute whole tensors: {written:,.0f} elements are computed and assigned one by one "
            f"{replay.in_step}",
            categories=(Category.LAUNCH_BOUND,),
            culprit="elements assigned one by one",
            problem="Tensors are filled element by element",
            remedy=pytorch_remedy(
                "Compute all elements with a few operators on whole tensors: constant matrices times cos(q) and "
                "sin(q), or torch.stack of the elements, reshaped once.",
                "Where a gradient is needed, each assignment to M[:, i, j] also copies the whole tensor in the "
                "backward pass.",
                "Make the matrices of all joints or samples at once, with one more dimension.",
                code="""c, s = torch.cos(q)[..., None, None], torch.sin(q)[..., None, None]
M = constant + c * times_cos + s * times_sin      # (batch, joints, 4, 4) with constant (joints, 4, 4)
# instead of: M = torch.zeros(batch, 4, 4); M[:, 0, 0] = torch.cos(q[:, k]); M[:, 0, 1] = ...""",
            ),
            expected=together(without, times(rest, operations, LEFT)),
            low=without,
            high=together(without, times(rest, operations, most)),
            depends_on="whether a few operators give all elements, and of all tensors at once",
        )
