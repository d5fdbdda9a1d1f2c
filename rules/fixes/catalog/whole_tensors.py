"""Tensors that are computed and written element by element instead of as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from parsers.model import I64, Attribute, derived
from parsers.model.arrays import per_value
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.backward import assigns_to_part, autograd_functions, backward_of
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import per_step, times, together, without_calls
from rules.fixes.forms.written import called_in_order, calls_of
from rules.fixes.loops.item_loops import in_loops
from rules.kernels.recorded_shapes import single_tensors_in
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

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
