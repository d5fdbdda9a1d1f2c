"""One rank comes late to the collectives, and the others wait for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import Trace
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis, analyse
from rules.analysis.causes import Cause
from rules.analysis.intervals import clip, pairs
from rules.analysis.phrases import listed, of_every_step, part_of_step, share
from rules.analysis.ranks import MISSING, Ranks, ranks_of
from rules.base import Category, Evidence, Finding, Need, rule, severity_of

LEAST_SHARE = 0.01  # collectives must cost more than 1 % of the window (HTA)
CLEARLY_MORE = 0.05  # of the window: what the late rank does more than the others

_CODE = """# Which rank is late, and by how much, without a profiler:
start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
start.record()
torch.distributed.barrier()
end.record()
torch.cuda.synchronize()
print(torch.distributed.get_rank(), start.elapsed_time(end), "ms waited")   # the late rank waits least"""


@rule
class LateRank:
    """Waiting inside collectives for the rank that arrives last."""

    id: ClassVar[str] = "late-rank"
    category: ClassVar[Category] = Category.STRAGGLER
    needs: ClassVar[frozenset[Need]] = frozenset({Need.GPU_EVENTS, Need.COLLECTIVES, Need.SEVERAL_RANKS})
    explanation: ClassVar[str] = """
What it found
    The same rank comes last to most collectives. The others sit inside their communication kernels and wait.

Why it costs time
    A collective can only start when every rank is there. The whole group runs at the pace of the last one.

How it decides
    It matches collectives across ranks by process group, sequence, kind and size. The transfer takes about as long
    as the shortest participant; the rest of each longer one is waiting, and the shortest came last. It fires when
    more than half of all waiting is for one rank and costs more than 1 % of the step. The ceiling is what the
    others expose beyond the late rank, and, as far as it idles longer than they do, what they compute more slowly
    beside a waiting collective.

What to try
    Look at what the late rank does in that time: more GPU work (uneven batches, padding, an extra evaluation), more
    CPU work (logging, saving, data loading, a slower or busier CPU), copies, or a slower GPU (heat, power).

When it is wrong
    When only some of the ranks were recorded, the late one may be among the others. The profiler itself can slow
    one rank.
"""

    def check(self, trace: Trace) -> Iterable[Finding]:
        analysis = analyse(trace)
        ranks = ranks_of(analysis)
        late, ceiling = ranks.late, ranks.lost_to_late
        if late == MISSING or share(analysis, ceiling) < LEAST_SHARE:
            return
        device = ranks.devices[late]
        rank = trace.devices[device].rank
        name = ranks.table[late].name
        waits = np.where(np.arange(len(ranks.devices)) == late, -1, ranks.waiting.sum(axis=0))
        patient = int(waits.argmax())
        intervals = clip(analysis.time(ranks.devices[patient]).communication, *analysis.window)
        yield Finding(
            rule=self.id,
            category=self.category,
            severity=severity_of(ceiling, analysis.window_ns),
            title=f"The others wait for {name}: {of_every_step(analysis, share(analysis, ceiling))}",
            explanation=_explanation(analysis, ranks, late, ceiling),
            advice=_advice(analysis, ranks, late),
            ceiling_ns=ceiling,
            window_ns=analysis.window_ns,
            culprit=name,
            rank=rank if rank is not None else trace.devices[device].id,
            device=device,
            evidence=_evidence(trace, ranks, patient, late),
            intervals=pairs(intervals),
            code=_CODE,
            cannot_tell=(
                "Why its CPU or GPU is slower: compare clocks, temperature and CPU load of the machines "
                "(nvidia-smi, top)."
            ),
        )


def _explanation(analysis: Analysis, ranks: Ranks, late: int, ceiling: int) -> str:
    name = ranks.table[late].name
    others = [row for column, row in enumerate(ranks.table) if column != late]
    lasts, every = int((ranks.last[ranks.in_window] == late).sum()), int(ranks.in_window.sum())
    waiting = max(row.waiting_ns for row in others)
    lost = percent(share(analysis, waiting))
    text = (
        f"{name[0].upper()}{name[1:]} comes last to {lasts} of {every} collectives; the other {len(others)} wait for "
        f"it inside their communication kernels, up to {lost} of the time with nothing else to do. It costs up to "
        f"{part_of_step(analysis, ceiling)}."
    )
    if ceiling > waiting:
        text += " Their own kernels run more slowly beside a waiting collective; that is part of it."
    if since := _since(ranks, late):
        text += f" {since}"
    instead = _instead(analysis, ranks, late)
    text += f" Meanwhile {name} {instead}." if instead else ""
    error = int(max(ranks.clock_error, default=0))
    return f"{text} Clocks agree within about {duration(max(error, 1000))}."


def _since(ranks: Ranks, late: int) -> str:
    names, table = ranks.waiting_by_step()
    if len(names) < 2:
        return ""
    others = np.delete(table, late, axis=1).mean(axis=1)
    usual = others.max(initial=0)
    loud = np.flatnonzero(others > 0.3 * usual)
    if not len(loud):
        return ""
    if len(loud) >= len(names) - 1:
        return "It is so in every step."
    return f"It begins in {names[int(loud[0])]} and shows in {len(loud)} of {len(names)} steps."


def _instead(analysis: Analysis, ranks: Ranks, late: int) -> str:
    """What the late rank does more of than the others, as a clause."""
    budgets = [analysis.budgets(device) for device in ranks.devices]
    mine = budgets[late]
    others = [budget for column, budget in enumerate(budgets) if column != late]

    def excess(own: int, theirs: list[int]) -> float:
        return share(analysis, own - float(np.median(theirs)))

    parts = []
    if (more := excess(mine.compute_ns, [each.compute_ns for each in others])) >= CLEARLY_MORE:
        parts.append(f"computes {percent(more)} of the step more than the others")
    if (more := excess(mine.exposed_copy_ns, [each.exposed_copy_ns for each in others])) >= CLEARLY_MORE:
        parts.append(f"copies {percent(more)} of the step longer")
    for cause, text in _CAUSE_TEXTS.items():
        if (more := excess(mine.idle_ns[cause], [each.idle_ns[cause] for each in others])) >= CLEARLY_MORE:
            culprit = _largest_culprit(analysis, ranks.devices[late], cause)
            parts.append(f"{text} {percent(more)} of the step longer" + (f" ({culprit})" if culprit else ""))
    return listed(parts)


_CAUSE_TEXTS = {
    Cause.HOST: "waits for its own Python code",
    Cause.INPUT: "waits for its data",
    Cause.LAUNCH: "waits for launches by its CPU",
    Cause.SYNCHRONIZATION: "is blocked by synchronisation",
    Cause.ALLOCATOR: "allocates memory",
    Cause.UNKNOWN: "idles for an unknown reason",
}


def _largest_culprit(analysis: Analysis, device: int, cause: Cause) -> str:
    idle = analysis.idle
    t0, t1 = analysis.window
    mine = (idle.device == device) & (idle.cause == cause) & (idle.end > t0) & (idle.start < t1)
    if not mine.any():
        return ""
    total = np.bincount(idle.culprit[mine], (idle.end - idle.start)[mine], minlength=len(idle.culprits))
    return idle.culprits[int(total.argmax())]


def _evidence(trace: Trace, ranks: Ranks, patient: int, late: int) -> tuple[Evidence, ...]:
    mine = np.flatnonzero(ranks.last == late)
    mine = mine[np.argsort(-ranks.waiting[mine, patient], kind="stable")][:20]
    events = ranks.columns.event[ranks.row[mine, patient]]
    return tuple(
        Evidence(
            int(trace.events.lane[event]),
            int(trace.events.start[event]),
            int(trace.events.end[event]),
            trace.name(event),
            event,
        )
        for event in events.tolist()
    )


def _advice(analysis: Analysis, ranks: Ranks, late: int) -> tuple[str, ...]:
    name = ranks.table[late].name
    instead = _instead(analysis, ranks, late)
    if "computes" in instead:
        first = (
            f"Give {name} the same amount of GPU work as the others: equal batches and sequence lengths, and "
            "nothing that only it computes."
        )
    elif "Python" in instead or "launches" in instead or "data" in instead:
        first = (
            f"Take CPU work off {name}: log, save and evaluate elsewhere or in a thread, and give its process cores "
            "of its own."
        )
    else:
        first = f"Find out what {name} does differently: its machine, its input, its clocks."
    return (
        first,
        "Compare the ranks' rows in the Ranks tab: compute, communication and waiting for each step.",
    )
