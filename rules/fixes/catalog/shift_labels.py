"""The labels of a language model are shifted by one place, not its scores."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import without_calls
from rules.fixes.forms.written import called_in_order, costly_calls
from rules.kernels.fitting_shapes import Shapes, elements, fitting
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

FAR = 12  # operators between the copy and the loss: labels are cut, copied and sent meanwhile
NEAR = 3  # operators from the cut to the copy: other dimensions are cut, too, in full
_COPIES = frozenset({"aten::contiguous", "aten::clone", "aten::reshape", "aten::flatten"})
_LOSSES = frozenset({"aten::cross_entropy_loss", "aten::log_softmax", "aten::nll_loss_nd", "aten::nll_loss"})

_CODE = """labels = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=-100)      # the last place has no next word
loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
# not logits[..., :-1, :].contiguous(), which copies all scores, and their gradients once more"""


@fix
class ShiftLabels:
    """Scores of all positions but the last one, copied for the loss."""

    id = "shift-labels"
    explanation = """
When it applies
    A part of a tensor along its last dimension but one is copied, and at most 12 operators later a loss reads as many
    numbers. That takes at least 5 % of the GPU's time, with its gradients. Shapes must be recorded.

What is changed in the replay
    The copy is gone, and so are those of its gradients.

What makes it more or less
    The loss reads one more position, which is not counted.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, share = costly_calls(analysis, replay, _copied(analysis))
        if not share:
            return
        yield Proposal(
            title=f"Shift the labels, not the scores: {percent(share)} of the GPU's time copies scores for the loss",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR),
            culprit="copies of the scores",
            problem="Scores are copied for the loss",
            remedy=remedy(
                for_pytorch(
                    "Leave out the last position by its label, ignore_index: labels are small, scores have a number "
                    "for each word of the vocabulary."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=without_calls(replay, nodes),
        )


def _copied(analysis: Analysis) -> I64:
    """The operators that cut scores and copy what is left for a loss."""
    trace, found = analysis.trace, [np.empty(0, np.int64)]
    for operators in called_in_order(analysis):
        slices = named(trace, operators, "aten::slice".__eq__)
        losses = np.flatnonzero(named(trace, operators, _LOSSES.__contains__))
        copies = np.flatnonzero(named(trace, operators, _COPIES.__contains__))
        for near in range(1, NEAR + 1):
            mine = copies[copies >= near]
            mine = mine[slices[mine - near]]
            mine = mine[fitting(trace, operators[mine - near], operators[mine], fits=_cuts_a_position)]
            following = np.searchsorted(losses, mine)
            mine, following = mine[following < len(losses)], following[following < len(losses)]
            loss = losses[following]
            near_loss = loss - mine <= FAR
            mine, loss = mine[near_loss], loss[near_loss]
            mine = mine[fitting(trace, operators[mine], operators[loss], fits=_has_as_many)]
            found += [operators[mine], operators[mine - near]]
    return np.concatenate(found)


def _cuts_a_position(sliced: Shapes, copied: Shapes) -> bool:
    whole, part = sliced[0], copied[0]
    return len(whole) == len(part) >= 2 and whole[-1] == part[-1] and whole[-2] - 1 == part[-2]


def _has_as_many(copied: Shapes, loss: Shapes) -> bool:
    return elements(copied[0]) == elements(loss[0]) > 0
