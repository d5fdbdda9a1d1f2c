"""Operators that have a cheaper form: sorting, one-hot products, differences of pairs, unread results."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind
from parsers.model.arrays import distinct_values
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import is_python
from rules.analysis.names.operators import aten
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix, remedy
from rules.fixes.changes import durations_times, less_host_time, share_of, times, together, without_calls
from rules.fixes.forms.gathered_rows import unread_rows
from rules.fixes.forms.written import called_in_order, costly_calls, left_of
from rules.kernels.launched_elements import summed_differences
from rules.kernels.pair_distances import (
    LEFT,
    MAX_LEFT,
    MIN_DIMENSIONS,
    MIN_LEFT,
    one_hot_products,
    pair_distances,
)
from rules.remedies.costly_forms import DISTANCES_BY_PRODUCT, PICK_WITHOUT_SORTING, ROWS_BY_INDEX
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

FEW_READ = 0.05  # of the time of the sort: one that reads all of its result takes about a tenth
LEFT_OF_SORTING = 0.1  # of sorting: what picking a few values takes
_SORTS = aten("sort argsort msort")
_PARTS = aten("slice narrow select")
_NUMBERS_ROWS = regex(r"fill_(reverse_indices|index_and_segment)_kernel")


@fix
class PickWithoutSorting:
    id = "pick-without-sorting"
    explanation = """
When it applies
    The program takes a part of what aten::sort or aten::argsort gave it at once, and the next operation on the GPU
    takes at most a twentieth of the sort, so that it cannot read all of it. Without operators, the kernels say what
    sorts long rows. Sorting takes at least 5 % of the GPU's time.

What is changed in the replay
    A tenth of the sort's launches and of its time on the GPU remains.

What makes it more or less
    How many values are picked, and how long the rows are: in short ones, sorting costs little more than picking.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for all sorts of which a part is taken."""
        nodes = _for_a_part(analysis, replay)
        sorting = nodes[replay.device.launch]
        share = share_of(replay, sorting)
        if share < MIN_GPU_SHARE:
            return
        yield Proposal(
            title=f"Pick the best values without sorting: {percent(share)} of the GPU's time sorts whole rows",
            categories=(Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit="aten::sort",
            problem="Whole rows are sorted for their best values",
            remedy=PICK_WITHOUT_SORTING,
            expected=times(nodes, sorting, LEFT_OF_SORTING),
        )


def _for_a_part(analysis: Analysis, replay: Replay) -> BOOL:
    """The calls inside of sorts of whose result a part is taken at once, and little is read next."""
    trace, table, host, device = analysis.trace, analysis.trace.events, replay.host, replay.device
    if EventKind.CPU_OP not in trace.kinds:
        return _for_little(analysis, replay)
    found = np.zeros(len(host), bool)
    operator = surroundings_of(analysis).whole_operator
    sorting = operator >= 0
    sorting[sorting] = named(trace, operator[sorting], _SORTS.__contains__)
    on_gpu = np.bincount(device.launch, device.duration, minlength=len(host))
    launches = distinct_values(device.launch)
    for activity, mine in analysis.threads.by_thread(host.event[sorting]):
        calls = np.flatnonzero(sorting)[mine]
        operators = activity.of_kind(EventKind.CPU_OP)
        operators = table.by_start(operators)
        sorts, which = np.unique(operator[calls], return_inverse=True)
        following = np.searchsorted(table.start[operators], table.end[sorts])
        goes_on = following < len(operators)
        taken = goes_on.copy()
        taken[goes_on] = named(trace, operators[following[goes_on]], _PARTS.__contains__)
        last = np.zeros(len(sorts), np.int64)
        np.maximum.at(last, which, calls)
        behind = np.searchsorted(launches, last, side="right")
        reads = np.append(on_gpu[launches], 0.0)[behind]
        found[calls] = (taken & (reads <= FEW_READ * np.bincount(which, on_gpu[calls])))[which]
    return found


def _for_little(analysis: Analysis, replay: Replay) -> BOOL:
    """The same by kernels alone: PyTorch numbers the elements of long rows first, and then sorts these."""
    trace, host, device = analysis.trace, replay.host, replay.device
    found = np.zeros(len(host), bool)
    numbers = named(trace, device.event, _NUMBERS_ROWS.search)
    if not numbers.any():
        return found
    kinds = trace.events.kind[device.event]
    sorts = numbers | of_kinds(kinds, EventKind.MEMCPY, EventKind.MEMSET)
    sorts |= analysis.family_of_string[trace.events.name[device.event]] == Family.SORT
    stretch = np.cumsum(numbers | ~sorts | np.append(False, np.diff(device.stream) != 0)) - 1
    first = np.flatnonzero(np.append(True, np.diff(stretch) != 0))
    reads = np.append(device.duration[first[1:]], 0.0)
    little = numbers[first] & (reads <= FEW_READ * np.bincount(stretch, device.duration))
    found[device.launch[little[stretch]]] = True
    return found


MIN_SHARE = 0.1  # of the GPU's time is between a sort and the next matrix product
LEFT_OF_SAMPLING = 0.1  # of it: what works on the best candidates
LEFT_OF_MANY = 0.3  # where many are kept
_PRODUCTS = (Family.GEMM, Family.TRITON, Family.ATTENTION, Family.CONVOLUTION)

_SELECTING_CODE = """best = logits.topk(256)                                # of 128,000
probabilities = best.values.softmax(dim=-1)
kept = probabilities.cumsum(dim=-1) - probabilities < top_p
drawn = torch.multinomial(probabilities * kept, 1)
tokens = best.indices.gather(1, drawn)"""


@fix
class SelectBeforeSorting:
    id = "select-before-sorting"
    explanation = """
When it applies
    Nothing is trained, and after a matrix product rows are sorted and then accumulated (a cumulative sum). From the
    sort to the next product takes at least a tenth of the GPU's time.

What is changed in the replay
    A tenth of everything from a sort to the next product remains, or three tenths where many candidates are kept.

What makes it more or less
    How many candidates are kept, and whether a fused kernel for sampling does the rest.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        if not is_python(trace) or is_training(analysis):
            return
        family = analysis.family_of_string[trace.events.name[device.event]]
        order = np.lexsort((device.start, device.stream))
        product = of_kinds(family, *_PRODUCTS)[order]
        # torch.topk has kernels of its own, and sorts the few that it found
        picks = named(trace, device.event, lambda name: "topk" in name.lower())[order]
        sorts = named(trace, device.event, lambda name: "sort" in name.lower())
        sorts = (
            (sorts & (family == Family.SORT))[order] & ~picks & ~np.append(False, picks[:-1])[: len(order)]
        )
        adds_up = named(trace, device.event, _adds_up)[order]
        stretch = np.cumsum(product | np.append(True, np.diff(device.stream[order]) != 0))
        place = np.arange(len(order))
        first = np.full(int(stretch[-1]) + 1, len(order))
        np.minimum.at(first, stretch[sorts], place[sorts])
        behind = (place >= first[stretch]) & ~product
        behind &= (np.bincount(stretch, adds_up & behind) > 0)[stretch]
        found, sorting = np.zeros(len(order), bool), np.zeros(len(order), bool)
        found[order], sorting[order] = behind, behind & sorts
        share = share_of(replay, found)
        if share < MIN_SHARE:
            return
        yield Proposal(
            title=(
                f"Pick the best candidates before sorting: {percent(share)} of the GPU's time sorts whole rows and "
                "adds them up"
            ),
            categories=(Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit=trace.name(int(device.event[np.flatnonzero(sorting)[0]])),
            problem="Whole rows are sorted where a few candidates would do",
            remedy=remedy(
                for_pytorch(
                    "torch.topk finds a few hundred candidates in one pass; softmax, cumsum and multinomial "
                    "then work on these."
                ),
                "A fused sampling kernel (FlashInfer, vLLM) needs no sort at all.",
                code=for_pytorch(_SELECTING_CODE),
            ),
            expected=durations_times(found, LEFT_OF_SAMPLING),
            low=durations_times(found, LEFT_OF_MANY),
            depends_on="how many candidates are kept",
        )


def _adds_up(name: str) -> bool:
    return "scan_innermost_dim" in name or "scan_outer_dim" in name or "DeviceScan" in name


@fix
class LookRowsUp:
    id = "look-rows-up"
    explanation = f"""
When it applies
    One-hot vectors are made (aten::one_hot) and multiplied by a matrix, with at most two operators between, such as a
    conversion. That takes at least 5 % of the GPU's time, with its gradient. Shapes must be recorded.

What is changed in the replay
    A look-up takes {percent(LEFT)} of this time, and so does its gradient.

What makes it more or less
    How many rows are looked up, and how long the rows are: {percent(MIN_LEFT)} to {percent(MAX_LEFT)} of the time
    is left.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = [one_hot_products(analysis.trace, operators) for operators in called_in_order(analysis)]
        operators = np.concatenate([np.empty(0, np.int64), *found])
        nodes, share = costly_calls(analysis, replay, operators)
        if not share:
            return
        operations = nodes[replay.device.launch]
        yield Proposal(
            title=f"Look rows up by index: products with one-hot vectors take {percent(share)} of the GPU's time",
            categories=(Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit="aten::one_hot",
            problem="Rows are looked up by products with one-hot vectors",
            remedy=ROWS_BY_INDEX,
            expected=durations_times(operations, LEFT),
            low=durations_times(operations, MAX_LEFT),
            high=durations_times(operations, MIN_LEFT),
            depends_on="how many rows are looked up, and how long they are",
        )


# passes over the distances that are left: the product and what is added to it, of points of so many dimensions
PASSES, PASSES_AT_MOST, PASSES_AT_LEAST = 2.0, 4.0, 1.25
MUCH_OF_GPU = 0.25  # in such kernels: without shapes, less may be a loss, or a variance written out


@fix
class MultiplyForDistances:
    id = "multiply-for-distances"
    explanation = """
When it applies
    Two tensors are subtracted or multiplied so that each row of one meets each row of the other. The results, at least
    four times as many as either has numbers and of at least 8 dimensions, are summed, differences as their squares or
    by a norm. cosine_similarity and pairwise_distance do so in one call. That takes at least 5 % of the GPU's time,
    with its gradients. Where no shapes were recorded, the blocks of the kernels have to say so, which take at least a
    quarter of the GPU's time: one reads along strides, and the others square and sum as many numbers right behind it,
    8 or more for each result.

What is changed in the replay
    That tensor is never written: of this time, 2 of as many parts as a point has dimensions are left.

What makes it more or less
    What is added to the product, 1.25 to 4 parts. Without shapes, one of the two may be as large as the differences:
    then nothing is gained. Distances that are small beside the numbers themselves need single
    precision in the product: without TF32.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        operators, dimensions = _differences(analysis)
        nodes, share = costly_calls(analysis, replay, operators)
        operations, known = nodes[replay.device.launch], share > 0
        if not known:
            found = summed_differences(analysis.trace, MIN_DIMENSIONS)
            dimensions, operations = found.dimensions, np.isin(replay.device.event, found.kernels)
            share = share_of(replay, operations)
            if share < MUCH_OF_GPU or _has_shapes(analysis):
                return
        left, most, least = (
            min(each / dimensions, 1.0) for each in (PASSES, PASSES_AT_MOST, PASSES_AT_LEAST)
        )
        yield Proposal(
            title=f"Compare all pairs by a matrix product: broadcasting takes {percent(share)} of the GPU's time",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR),
            culprit=analysis.trace.name(int(operators[0])) if known else "aten::sub",
            problem="All pairs are compared by broadcasting",
            remedy=DISTANCES_BY_PRODUCT,
            expected=durations_times(operations, left),
            low=durations_times(operations, most if known else 1.0),
            high=durations_times(operations, least),
            depends_on="what is added to the product"
            if known
            else "whether these are the differences of all pairs of two lists, which shapes would say",
        )


def _has_shapes(analysis: Analysis) -> bool:
    return Attribute.INPUT_DIMS in analysis.trace.attributes


def _differences(analysis: Analysis) -> tuple[I64, int]:
    """The operators that compare all pairs, and of how many dimensions the points are."""
    found = [pair_distances(analysis.trace, operators) for operators in called_in_order(analysis)]
    sizes = [each.dimensions for each in found if len(each.operators)]
    operators = np.concatenate([np.empty(0, np.int64), *(each.operators for each in found)])
    return operators, min(sizes, default=MIN_DIMENSIONS)


MIN_TIMES = 2  # in a step: a matrix that is new in each step has to be sorted once
# of the rest of a product, once rows are stored one behind the other: no conversion of indices, dense rows as they are,
# and a kernel for such rows. One label propagation over 3 million edges: 0.45
STORED_BY_ROWS = 0.5
_COALESCES = "aten::_coalesce"
_SPARSE_PRODUCTS = aten("_sparse_mm _sparse_addmm sspaddmm mm addmm mv matmul")

_COALESCING_CODE = """graph = torch.sparse_coo_tensor(edges, weights, size).coalesce().to_sparse_csr()      # once
for _ in range(rounds):
    values = graph @ values                # instead of a new sparse_coo_tensor in each round"""


@fix
class CoalesceOnce:
    id = "coalesce-once"
    explanation = """
When it applies
    Inside products with sparse matrices, aten::_coalesce sorts the same number of rows and columns two times or more in
    each step, which takes at least 5 % of the GPU's time.

What is changed in the replay
    The sorting is gone, and the products take half of what is left of their time, on the CPU as well, as with rows
    stored one behind the other (CSR): no indices are converted.

What makes it more or less
    Whether the matrix is the same in each step: at least, it is sorted once in each, and products stay as they are.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, host = analysis.trace, replay.host
        around = surroundings_of(analysis)
        sorting, product = around.around(_COALESCES.__eq__), around.around(_SPARSE_PRODUCTS.__contains__)
        nodes = (sorting >= 0) & (product >= 0)
        share = share_of(replay, nodes[replay.device.launch])
        if share < MIN_GPU_SHARE:
            return
        matrix = np.column_stack(
            (host.step[nodes], trace.attribute(Attribute.INPUT_DIMS, sorting[nodes], -1), sorting[nodes])
        )
        sorts = np.unique(matrix, axis=0)
        _, first, count = np.unique(sorts[:, :2], axis=0, return_index=True, return_counts=True)
        often = np.isin(sorting, sorts[np.repeat(count >= MIN_TIMES, count), 2]) & nodes
        share = share_of(replay, often[replay.device.launch])
        if share < MIN_GPU_SHARE:
            return
        again = often & ~np.isin(sorting, sorts[first, 2])
        products = np.isin(around.whole_operator, around.whole_operator[often]) & ~nodes
        operations = products[replay.device.launch]
        gone = together(
            without_calls(replay, often),
            less_host_time(products, around.time_inside(_COALESCES.__eq__, EventKind.CPU_OP)),
        )
        yield Proposal(
            title=(
                f"Sort the sparse matrix once: products coalesce it {max(count)} times in a step, {percent(share)} of "
                "the GPU's time"
            ),
            categories=(Category.RECOMPUTATION, Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit="aten::_coalesce",
            problem="A sparse matrix is sorted again in each product",
            remedy=pytorch_remedy(
                "Make the matrix once, call coalesce() on it, and keep the result; better, keep it as CSR, which "
                "products read row by row.",
                "If its values change, but not its places, change the values of the kept matrix.",
                code=_COALESCING_CODE,
            ),
            expected=together(gone, times(products, operations, STORED_BY_ROWS)),
            low=without_calls(replay, again),
            depends_on="whether the matrix is the same in each step, and how it is stored",
        )


_POSITIONS_CODE = """scores = head(hidden[:, -1])                  # one row for each text
# instead of head(hidden)[:, -1], which multiplies all positions, and writes them"""


@fix
class MultiplyWhatIsRead:
    id = "multiply-what-is-read"
    explanation = """
When it applies
    No gradients are computed, and after a product with a matrix of weights some of its rows are picked, at most half.
    Whatever takes all of them, up to the next such product, works on each row alone or picks some. That takes at least
    5 % of the GPU's time. Shapes must be recorded.

What is changed in the replay
    Of these operators' time, the part of the rows that is read remains, and of the product at least what reading the
    weights takes at half of the memory's bandwidth.

What makes it more or less
    How close to the memory's bandwidth a product of few rows comes.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = unread_rows(analysis, replay)
        _, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        product = analysis.trace.name(int(found.operators[0]))
        yield Proposal(
            title=(
                f"Pick the positions before the product: {percent(share)} of the GPU's time works on all of them, and "
                f"{percent(float(found.read.mean()))} are read"
            ),
            categories=(Category.RECOMPUTATION, Category.GPU_BOUND, Category.MEMORY_BOUND_KERNELS),
            culprit=product,
            problem="All positions are computed where a few are read",
            remedy=remedy(
                "Take the positions that are used first, and multiply only these.",
                for_pytorch(
                    "In transformers, generate() does so; a call of the model takes logits_to_keep=1 (formerly "
                    "num_logits_to_keep)."
                ),
                code=for_pytorch(_POSITIONS_CODE),
            ),
            expected=durations_times(
                *left_of(analysis, replay, found.operators, found.read, found.weights_ns)
            ),
        )
