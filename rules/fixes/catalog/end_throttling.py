"""The GPU runs at its highest clock instead of being held below it by power, heat or a setting."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.events import of_kinds
from rules.analysis.analysis import Analysis
from rules.analysis.logs.clocks import Limit, clock_facts
from rules.analysis.names.families import Family
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times
from rules.remedies.clocks import higher_clock
from rules.replay.replay import Replay

MIN_LOST = 0.03  # of the GPU's working time: the finding speaks from the same part on
_COMPUTING = (Family.GEMM, Family.CONVOLUTION, Family.ATTENTION)


@fix
class EndThrottling:
    """Devices whose clock a limit held down, by a device log of the same seconds."""

    id = "end-throttling"
    explanation = """
When it applies
    A device log opened with the recording says that a limit held the clock down for at least 3 % of the working time.

What is changed in the replay
    Matrix products, convolutions and attention take less time, in proportion to how far the clock was below its
    highest value.

What makes it more or less
    Whether the limit can be lifted: a board's own power limit cannot. Kernels that wait for memory hardly follow the
    clock; at most, all kernels do.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for each device that is slowed."""
        device = replay.device
        family = analysis.family_of_string[analysis.trace.events.name[device.event]]
        for number in np.unique(device.device).tolist():
            facts = clock_facts(analysis, number)
            if facts is None or facts.main is None or facts.lost_ns < MIN_LOST * facts.busy_ns:
                continue
            left = 1.0 - facts.lost_ns / facts.busy_ns
            least = 1.0 if facts.main is Limit.POWER else (1.0 + left) / 2  # boards have a limit of their own
            mine = (device.device == number) & (device.meeting < 0)
            computing = mine & of_kinds(family, *_COMPUTING)
            yield Proposal(
                key=str(number),
                title=(
                    f"Stop the GPU from throttling: {facts.main.words} holds it at {facts.limited_clock:.0f} of "
                    f"{facts.highest:.0f} MHz"
                ),
                categories=(Category.THROTTLING,),
                culprit=f"GPU {analysis.trace.devices[number].id}",
                remedy=higher_clock(facts.main),
                rank=analysis.trace.devices[number].rank,
                expected=durations_times(computing, left),
                low=durations_times(computing, least),
                high=durations_times(mine, left),
                depends_on="whether the limit can be lifted, and how much the kernels follow the clock",
            )
