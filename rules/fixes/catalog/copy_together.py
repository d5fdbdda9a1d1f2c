"""Many small copies to the GPU become one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import CopyKind
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import per_step, together, without_calls, without_waiting
from rules.fixes.copies_in_a_row import copies_in_a_row
from rules.replay.replay import Replay
from rules.wording.words import for_native, for_pytorch

_CODE = """rows = torch.from_numpy(np.stack(rows)).to("cuda")
# instead of
rows = torch.stack([torch.tensor(row, device="cuda") for row in rows])"""


@fix
class CopyTogether:
    """Small copies to the GPU one behind the other."""

    id = "copy-together"
    explanation = """
When it applies
    Sixteen or more copies of at most 64 kB go to the GPU in a row, with nothing launched in between.

What is changed in the replay
    Only the first one remains. The others are gone, along with the time before them and the waits for them.

What makes it more or less
    What it costs to assemble the pieces on the CPU, and what happens between two copies: reading or computing a piece
    must still be done.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        row = copies_in_a_row(replay, CopyKind.H2D)
        if not row.any():
            return
        launched = np.count_nonzero(row[replay.device.launch])
        often = per_step(replay, float(launched)) + 1
        host = replay.host
        taken = per_step(replay, float((host.gap + host.cost)[row].sum()))
        yield Proposal(
            title=(
                f"Send {often:,.0f} small copies as one: separately they take {duration(taken)} {replay.in_step}"
            ),
            categories=(Category.COPY_H2D, Category.HOST_BOUND, Category.SYNCHRONIZATION),
            culprit="small copies to the GPU",
            remedy=remedy(
                for_pytorch(
                    "Build one array or tensor on the CPU, and copy it once: torch.stack before .to('cuda')."
                ),
                for_native("Put the pieces side by side into one pinned buffer, and send it once."),
                code=for_pytorch(_CODE),
            ),
            expected=together(without_calls(replay, row), without_waiting(row)),
            low=together(without_calls(replay, row, 0.5), without_waiting(row)),
            depends_on="what the CPU does between two copies",
        )
