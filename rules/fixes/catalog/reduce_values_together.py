"""Values that are reduced over the ranks and read back one by one are reduced together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import together, without_meetings
from rules.fixes.loops.filled import joined
from rules.fixes.reduced_in_turn import meetings_inside, own_time, reduced_in_turn, values_of
from rules.losses.owners import place_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.wording.words import for_pytorch

_CODE = """norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])   # one reduction, sharded or not

values = torch.stack([loss, accuracy, scale])
torch.distributed.all_reduce(values)
loss, accuracy, scale = values.tolist()        # one message, and the CPU waits once"""


@fix
class ReduceValuesTogether:
    """Norms, losses and scores of all ranks, each with a collective and a read-back of its own."""

    id = "reduce-values-together"
    switches = ("no-read-backs", "no-collectives")
    explanation = """
When it applies
    Three or more times in a row a small collective is followed by reading back at most 256 bytes, with no more than 20
    launches in between.

What is changed in the replay
    One collective and one read-back remain: the others, what they wait for, and the CPU's time from one to the next are
    gone. The GPU's other work stays, without the 1.5 us that each kernel takes to start, and so does what the program
    does for 250 us or longer in which nothing is recorded. Where nothing follows in a step that the program marks, no
    value is needed in it: then none is read.

What makes it more or less
    Whether a value is needed before the next one is computed. If they are only logged, reading them in every hundredth
    step gives more.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        later = reduced_in_turn(analysis)
        if len(replay.spans) < 2 or not later.any():
            return
        values = round(values_of(replay, later))
        place = place_of(analysis, later.astype(np.float64))
        where = f" in {place}" if place else ""
        yield Proposal(
            title=f"Reduce {values:,} values together: each has a collective and a read-back of its own{where}",
            categories=(
                Category.COMMUNICATION_LATENCY,
                Category.SYNCHRONIZATION,
                Category.EXPOSED_COMMUNICATION,
            ),
            culprit="values reduced one by one",
            problem="Values are reduced and read back one by one",
            remedy=remedy(
                "Put the values into one tensor, reduce it over the ranks once, and read it back once.",
                for_pytorch(
                    "The norm of all gradients takes one reduction, also where they are sharded: "
                    "torch.nn.utils.get_total_norm, or clip_grad_norm_."
                ),
                "Read what is only logged in every hundredth step.",
                code=for_pytorch(_CODE),
            ),
            expected=_together(replay, later),
            depends_on="whether a value is needed before the next one is computed",
        )


def _together(replay: Replay, later: BOOL) -> Change:
    own = own_time(replay)[later]
    gone = together(
        joined(replay, later, np.ones(len(replay.device))),
        without_meetings(replay, meetings_inside(replay, later)),
    )

    def change(overlay: Overlay) -> None:
        left = np.minimum(overlay.gap[later], own)
        gone(overlay)
        overlay.gap[later] = left

    return change
