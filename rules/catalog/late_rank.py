"""One rank comes late to the collectives, and the others wait for it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, pairs
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.recorded import RecordedRun, ranks_of
from rules.analysis.ranks.stages import stages_of
from rules.findings.base import Category, Evidence, Finding, Need, Rule, rule
from rules.losses.lost_time import evidence_of
from rules.remedies.communication import keep_up
from rules.replay.late_ranks import gain_without_late_ranks
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.late_ranks import because, cannot_tell, clocks_agree, explanation, headline, late_names
from rules.wording.phrases import share
from rules.wording.words import ours

MAX_EVIDENCE = 20


@rule
class LateRank(Rule):
    """Waiting inside collectives for the rank that arrives last."""

    id = "late-rank"
    category = Category.STRAGGLER
    needs = frozenset({Need.GPU_EVENTS, Need.COLLECTIVES, Need.SEVERAL_RANKS})
    explanation = """
What it found
    The same rank, or the same few, arrive late at the collectives. The others sit in their communication kernels and
    wait.

Why it costs time
    A collective can only start when every rank is there. The whole group runs at the pace of the last rank.

How it decides
    It matches collectives across ranks by process group, sequence, kind and size. The transfer takes about as long as
    the shortest participant; the rest of each longer one is waiting, and the shortest one arrived last. It fires when
    more than half of all waiting ends with the arrival of one rank and costs more than {least-share} of the step. A
    moment in which several are missing is charged to them in equal parts: a second rank is named if a quarter of all
    waiting and 1 % of the step is for it, and several are named together if nine tenths are for them, each about as
    much. Where ranks meet in several groups, a rank that waited in another group before is late because of the rank
    it waited for, and is not blamed. The ceiling is what the others expose beyond the late ranks, and, to the extent
    that these idle longer than they do, how much more slowly they compute alongside a waiting collective (no more
    than they visibly wait, if nothing shows what the late ranks do more of); but no more than a replay gains in which
    the late ranks take no CPU time at all. If every rank is limited by its CPU, the latest one is so by chance, and
    that is little.

What to try
    Look at what the late rank does in that time: more GPU work (uneven batches, padding, an extra evaluation), more
    CPU work (logging, saving, data loading, a slower or busier CPU), copies, or a slower GPU (heat, power).

When it is wrong
    If only some of the ranks were recorded, the late one may be among the others. The profiler itself can slow one
    rank. Stages of a pipeline wait for one another by design, and have a finding of their own.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        if stages_of(trace):
            return  # stages work one after the other
        ranks = ranks_of(analysis)
        ceiling = ranks.lost_to_late
        if ceiling and (gain := gain_without_late_ranks(analysis)) is not None:
            ceiling = min(ceiling, round((1 - 1 / max(gain, 1.0)) * analysis.window_ns))
        if not ranks.late or share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        device = ranks.run.device(ranks.late[0])
        rank = trace.devices[device].rank
        patient = int(ranks.others[ranks.waiting[ranks.others].argmax()])
        intervals = clip(ranks.run.alone(patient), *analysis.window)
        yield self.finding(
            analysis,
            headline=headline(ranks, ceiling),
            account=explanation(ranks, ceiling),
            remedy=keep_up(ranks).and_then(
                "Compare the ranks' rows in the Ranks tab: compute, communication and waiting for each step."
            ),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.RANK, late_names(ranks)),
            because=because(ranks),
            rank=rank if rank is not None else trace.devices[device].id,
            device=device,
            evidence=_evidence(analysis, ranks, patient),
            intervals=pairs(intervals),
            unknown=(cannot_tell(ranks) + _SLOWER + clocks_agree(ranks),),
        )


_SLOWER = ours(
    "Why its CPU or GPU is slower: compare clocks, temperature and CPU load of the machines ($GpuMonitor, top)."
)


def _evidence(analysis: Analysis, ranks: Ranks[RecordedRun], patient: int) -> tuple[Evidence, ...]:
    """The longest waits of the most patient row for the late ones."""
    meetings, run = ranks.run.meetings, ranks.run
    mine = meetings.of_row(patient)
    mine = mine[np.isin(meetings.row[meetings.last][meetings.meeting[mine]], ranks.late)]
    mine = mine[np.argsort(-meetings.waiting[mine], kind="stable")][:MAX_EVIDENCE]
    return evidence_of(analysis.trace, run.columns.event[run.places[mine]])
