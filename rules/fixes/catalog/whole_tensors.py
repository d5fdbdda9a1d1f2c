"""Tensors that are computed and written element by element instead of as a whole."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.backward import assigns_to_part, autograd_functions, backward_of
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import per_step, times, together, without_calls
from rules.fixes.forms.element_writes import fillings
from rules.fixes.forms.written import calls_of
from rules.fixes.loops.item_loops import in_loops
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

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
