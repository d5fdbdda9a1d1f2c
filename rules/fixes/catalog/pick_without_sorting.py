"""Of sorted rows only the first few values are used: they are found without sorting."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, EventKind
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix, remedy
from rules.fixes.changes import share_of, times
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

FEW_READ = 0.05  # of the time of the sort: one that reads all of its result takes about a tenth
LEFT = 0.1  # of sorting: what picking a few values takes
_SORTS = frozenset({"aten::sort", "aten::argsort", "aten::msort"})
_PARTS = frozenset({"aten::slice", "aten::narrow", "aten::select"})

_CODE = """best = scores.topk(50).indices                 # instead of scores.argsort(descending=True)[:, :50]
middle = values.kthvalue(n // 2).values        # instead of values.sort().values[:, n // 2]"""


@fix
class PickWithoutSorting:
    """Rows that are sorted for their first values."""

    id = "pick-without-sorting"
    explanation = """
When it applies
    The program takes a part of what aten::sort or aten::argsort gave it at once, and the next operation on the GPU
    takes at most a twentieth of the sort, so that it cannot read all of it. Sorting takes at least 5 % of the GPU's
    time.

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
            remedy=remedy(
                for_pytorch("torch.topk finds the first values in one pass, torch.kthvalue a single one."),
                code=for_pytorch(_CODE),
            ),
            expected=times(nodes, sorting, LEFT),
        )


def _for_a_part(analysis: Analysis, replay: Replay) -> BOOL:
    """The calls inside of sorts of whose result a part is taken at once, and little is read next."""
    trace, table, host, device = analysis.trace, analysis.trace.events, replay.host, replay.device
    found = np.zeros(len(host), bool)
    operator = surroundings_of(analysis).whole_operator
    sorting = operator >= 0
    sorting[sorting] = named(trace, operator[sorting], _SORTS.__contains__)
    on_gpu = np.bincount(device.launch, device.duration, minlength=len(host))
    launches = np.unique(device.launch)
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
