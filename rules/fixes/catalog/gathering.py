"""Rows that are gathered before the work on them, drawn from a shuffle of all, or sorted to be added up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.analysis.names.operators import aten
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import durations_times, of_nodes, share_of, times, together, unchanged, without_calls
from rules.fixes.forms.gathered_rows import messages_of_gathered, passes_over_gathered, products_of_gathered
from rules.fixes.forms.written import called_in_order, calls_of, costly_calls, left_of
from rules.kernels.recorded_shapes import Shape, inputs_of_event, single_tensors_in
from rules.remedies.costly_forms import ADD_BY_INDEX, DRAW_FEW, MULTIPLY_FIRST, RUN_FIRST, SPARSE_PRODUCT
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

_AGAIN = (Category.RECOMPUTATION, Category.GPU_BOUND, Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR)


@fix
class MultiplyBeforeGathering:
    id = "multiply-before-gathering"
    explanation = """
When it applies
    Rows of a matrix are gathered (aten::index, index_select, embedding), at least twice as many as it has, and go into
    a product with a matrix of weights, side by side with others or as differences at most. That takes at least 5 % of
    the GPU's time, with its gradient. Shapes must be recorded.

What is changed in the replay
    The product takes as much less time as there are fewer rows, for the columns of the weights that meet gathered rows.
    Gathering takes as much more or less as the products are wider or narrower than the rows. Joining the rows is gone;
    where they were not subtracted, the products are added up instead.

What makes it more or less
    How wide the products are beside the rows.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = products_of_gathered(analysis)
        _, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        yield Proposal(
            title=(
                f"Multiply before gathering: {percent(share)} of the GPU's time gathers {found.rows:,} rows "
                f"{found.times:.0f} times each and multiplies them all"
            ),
            categories=_AGAIN,
            culprit="products of gathered rows",
            problem="Rows are gathered before they are multiplied",
            remedy=MULTIPLY_FIRST,
            expected=durations_times(*left_of(analysis, replay, found.operators, found.left)),
        )


# times: a cache that holds all rows is about twice as quick as memory, and numbers that are trained need both rows of
# each again for their gradients, so that 4 of 18 passes remain
UNKNOWN = 2.0


@fix
class MultiplyBySparse:
    id = "multiply-by-sparse"
    explanation = """
When it applies
    Rows of a matrix are gathered (aten::index, index_select, embedding), at least twice as many as it has, multiplied
    by a number each at most, and added up by an index, as messages along the edges of a graph are: by index_add or
    scatter_add, or by scatter_reduce or index_put with kernels that add. That takes at least 5 % of the GPU's time,
    with its gradients. Shapes must be recorded.

What is changed in the replay
    A product with a sparse matrix reads each gathered row once. Of this time, one part remains of as many as rows are
    read and written: 2 by the gather and by the multiplication, 3 by adding them up.

What makes it more or less
    A cache that holds the rows is about twice as quick as memory: half of that remains. Where the numbers are trained,
    both rows of each are read again for their gradients: twice of it remains.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = messages_of_gathered(analysis)
        _, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        expected, low, high = (
            durations_times(*left_of(analysis, replay, found.operators, found.left * passes))
            for passes in (1.0, UNKNOWN, 1.0 / UNKNOWN)
        )
        yield Proposal(
            title=(
                f"Multiply by a sparse matrix: {percent(share)} of the GPU's time gathers {found.rows:,} rows "
                f"{found.times:.0f} times each and adds them up"
            ),
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR, Category.GPU_BOUND),
            culprit="rows of neighbours",
            problem="Rows are gathered and added up one by one",
            remedy=SPARSE_PRODUCT,
            expected=expected,
            low=low,
            high=high,
            depends_on="how many of the rows a cache holds, and whether the numbers are trained",
        )


MIN_POWER = 0.5  # fewer rows fill a GPU less: at least, the time shrinks as the square root of their number


@fix
class RunBeforeGathering:
    id = "run-before-gathering"
    explanation = """
When it applies
    Rows such as pictures are gathered (aten::index, index_select), at least twice as many as there are, and a
    convolution or a layer works on each of them alone, with whatever follows up to the first operator that has not as
    many. Nothing right before the gather has as many rows. No gradients are computed. That takes at least 5 % of the
    GPU's time. Shapes must be recorded.

What is changed in the replay
    All of this takes as much less time as there are fewer rows.

What makes it more or less
    How well fewer rows fill the GPU: at least, the time shrinks as the square root of their number.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = passes_over_gathered(analysis)
        _, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        yield Proposal(
            title=(
                f"Run the network before gathering: {percent(share)} of the GPU's time works on {found.rows:,} rows "
                f"{found.times:.0f} times each"
            ),
            categories=_AGAIN,
            culprit="a network on gathered rows",
            problem="The network runs over the same rows again",
            remedy=RUN_FIRST,
            expected=durations_times(*left_of(analysis, replay, found.operators, found.left)),
            low=durations_times(*left_of(analysis, replay, found.operators, found.left**MIN_POWER)),
            depends_on="how well fewer rows fill the GPU",
        )


MAX_DRAWN = 0.1  # of what is shuffled: of more, numbers that come twice would matter
LEFT_OF_DRAWING = 0.02  # of shuffling: a number for each that is drawn
_SHUFFLES = "aten::randperm"
_ENDS_SHUFFLE = "randperm_handle_duplicate_keys"
_MAKES_KEYS = regex(r"random_from_to|arange_cuda_out")
_READS_BY_INDEX = regex(r"index_elementwise_kernel|indexSelect|gather_kernel|index_kernel")
FEW_READ = 0.05  # of the time of the shuffle: reading rows in its order takes at least about as long
_CUTS = frozenset({"aten::slice", "aten::narrow"})
_READS = aten("index index_select gather embedding")


@fix
class DrawFew:
    id = "draw-few"
    explanation = f"""
When it applies
    The program shuffles numbers on the GPU (aten::randperm) and cuts them once, right behind it. What is then read by
    an index (aten::index, index_select, gather, embedding) has at most a tenth as many rows. Without shapes, no kernel
    that reads by an index takes more than a twentieth of the shuffle, by the names of its kernels. Shuffling takes at
    least 5 % of the GPU's time.

What is changed in the replay
    {percent(LEFT_OF_DRAWING)} of the shuffle's launches and of its time on the GPU remains.

What makes it more or less
    Hardly anything.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, count = _shuffled_for_few(analysis, replay)
        share = share_of(replay, nodes[replay.device.launch])
        if share < MIN_GPU_SHARE:
            return
        yield Proposal(
            title=(
                f"Draw only what a step takes: {percent(share)} of the GPU's time shuffles "
                f"{f'{count:,}' if count else 'all'} numbers"
            ),
            categories=(Category.SLOW_OPERATOR, Category.RECOMPUTATION, Category.GPU_BOUND),
            culprit=_SHUFFLES,
            problem="Everything is shuffled to pick a few",
            remedy=DRAW_FEW,
            expected=times(nodes, nodes[replay.device.launch], LEFT_OF_DRAWING),
        )


def _shuffled_for_few(analysis: Analysis, replay: Replay) -> tuple[BOOL, int]:
    """The calls of shuffles of whose numbers a few are taken, and how many the largest has; 0 if nobody knows."""
    if Attribute.INPUT_DIMS not in analysis.trace.attributes:
        return _shuffled_by_kernels(analysis, replay), 0
    operators, count = _shuffles_cut_short(analysis)
    return calls_of(analysis, operators), count


def _shuffled_by_kernels(analysis: Analysis, replay: Replay) -> BOOL:
    """Calls that sort for a shuffle, of whose numbers so few are read that no gather takes long."""
    trace, device = analysis.trace, replay.device
    order = np.lexsort((device.start, device.stream))
    event, took = device.event[order], device.duration[order]
    ends = named(trace, event, lambda name: _ENDS_SHUFFLE in name)
    reads = named(trace, event, _READS_BY_INDEX.search)
    sorts = of_kinds(analysis.family_of_string[trace.events.name[event]], Family.SORT)
    sorts |= (trace.events.kind[event] == EventKind.MEMSET) | named(trace, event, _MAKES_KEYS.search)
    found = np.zeros(len(replay.host), bool)
    places = np.flatnonzero(ends)
    for place, end in zip(places.tolist(), [*places[1:].tolist(), len(order)], strict=False):
        first = place
        while first and sorts[first - 1]:
            first -= 1
        gathers = took[place + 1 : end][reads[place + 1 : end]]
        if len(gathers) and gathers.max() <= FEW_READ * took[first : place + 1].sum():
            found[device.launch[order[first : place + 1]]] = True
    return found


def _shuffles_cut_short(analysis: Analysis) -> tuple[I64, int]:
    """The operators that shuffle numbers of which a few are taken, and how many the largest has."""
    trace, found, most = analysis.trace, [np.empty(0, np.int64)], 0
    for called in called_in_order(analysis):
        places = np.flatnonzero(named(trace, called, _SHUFFLES.__eq__))
        cuts = np.flatnonzero(named(trace, called, _CUTS.__contains__))
        reads = np.flatnonzero(named(trace, called, _READS.__contains__))
        for place, end in zip(places.tolist(), [*places[1:].tolist(), len(called)], strict=False):
            mine = cuts[slice(*np.searchsorted(cuts, (place + 1, end)))]
            shuffled = _first(trace, called[min(place + 1, end - 1)])
            if not len(mine) or mine[0] != place + 1 or len(shuffled) != 1:
                continue
            count = shuffled[0]
            same = [each for each in mine.tolist() if _first(trace, called[each]) == shuffled]
            read = reads[slice(*np.searchsorted(reads, (place + 2, end - 1)))]
            if len(same) != 1 or not len(read):
                continue
            behind = _first(trace, called[read[0] + 1])
            if behind and behind[0] <= MAX_DRAWN * count:
                found.append(called[[place]])
                most = max(most, count)
    return np.concatenate(found), most


def _first(trace: Trace, event: int) -> Shape:
    """The sizes of the first tensor; none where there is none."""
    return next(iter(single_tensors_in(trace.text_attribute(Attribute.INPUT_DIMS, int(event)))), ())


LEFT_OF_ADDING = 0.5  # of the sum over sorted rows: adding them where they belong
MIN_LEFT_OF_ADDING = 0.2
_PUTS = aten("index_put_ index_put _index_put_impl_ _unsafe_index_put")


@fix
class AddRowsByIndex:
    id = "add-rows-by-index"
    explanation = f"""
When it applies
    aten::index_put_ sorts indices, as it does to add up (accumulate=True), of rows along the first dimension. In a
    backward pass it is the gradient of indexing. That takes at least 5 % of the GPU's time. Shapes must be recorded.

What is changed in the replay
    Sorting is gone, and {percent(LEFT_OF_ADDING)} of the sum itself remains.

What makes it more or less
    How many rows meet at one place: those are added one after the other. At least, nothing is gained; at most,
    {percent(MIN_LEFT_OF_ADDING)} of the sum remains.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, sorting, adding = _sorted_to_add(analysis, replay)
        share = share_of(replay, nodes[replay.device.launch])
        if share < MIN_GPU_SHARE:
            return
        yield Proposal(
            title=f"Add rows without sorting: {percent(share)} of the GPU's time is index_put_ with accumulate=True",
            categories=(Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS, Category.GPU_BOUND),
            culprit="aten::index_put_",
            problem="Indices are sorted to add up rows",
            remedy=ADD_BY_INDEX,
            expected=together(without_calls(replay, sorting), durations_times(adding, LEFT_OF_ADDING)),
            low=unchanged,
            high=together(without_calls(replay, sorting), durations_times(adding, MIN_LEFT_OF_ADDING)),
            depends_on="how many rows are added at one place",
        )


def _sorted_to_add(analysis: Analysis, replay: Replay) -> tuple[BOOL, BOOL, BOOL]:
    """Calls that put rows and sort for it, those of them up to the last of the sort, and the operations behind it."""
    trace, device, host = analysis.trace, replay.device, replay.host
    put = surroundings_of(analysis).around(_PUTS.__contains__)
    family = analysis.family_of_string[trace.events.name[device.event]]
    sorts = of_nodes(replay, of_kinds(family, Family.SORT)) & (put >= 0)
    which = distinct_values(put[sorts])
    which = (
        which[[_is_along_first(inputs_of_event(trace, each)) for each in which.tolist()]]
        if len(which)
        else which
    )
    nodes = np.isin(put, which)
    place = np.searchsorted(which, put[nodes])
    last = np.zeros(len(which), np.int64)
    np.maximum.at(last, place, np.where(sorts[nodes], host.start[nodes], 0))
    sorting = nodes.copy()
    sorting[nodes] = host.start[nodes] <= last[place]
    launched = nodes & ~sorting
    return nodes, sorting, launched[device.launch]


def _is_along_first(inputs: list[list[int]]) -> bool:
    """Whether values are rows of what they are put into, as with one index along the first dimension."""
    tensors = [each for each in inputs if each and isinstance(each[0], int)]
    return len(tensors) >= 2 and len(tensors[0]) == len(tensors[-1]) and tensors[0][1:] == tensors[-1][1:]
