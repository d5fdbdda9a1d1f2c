"""One rank comes late to the collectives, and the others wait for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parsers.model import BOOL, F64, Attribute, EventKind, Trace
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.ascending_search import among
from rules.analysis.arithmetic.durations import durations
from rules.analysis.arithmetic.intervals import clip, pairs
from rules.analysis.facts.inside_window import operations
from rules.analysis.idle.causes import Cause
from rules.analysis.idle.lost_time import evidence_of
from rules.analysis.ranks.waiting import MISSING, Ranks, ranks_of
from rules.base import Category, Evidence, Finding, Need, Rule, rule
from rules.culprit import Culprit, CulpritKind
from rules.replay.late_ranks import gain_without_late_ranks
from rules.thresholds import LEAST_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import listed, of_every_step, part_of_step, share
from rules.wording.words import Words, ours

ALIKE = 0.05  # counts and grids that differ by less are the same work
LEAST_MATCHED = 0.8  # of the slow GPU's kernel time must be in kernels that the others run as often


def times_as_long(analysis: Analysis, device: int, others: list[int]) -> float:
    """How many times as long the same kernels take as on the others' median; 0 where the work is not the same.

    The same work is the same kernels, equally often, with equally large grids; grids must have been recorded.
    """
    if not others:
        return 0.0
    count, time, grid = _by_name(analysis, device)
    theirs = [_by_name(analysis, other) for other in others]
    usual_count, usual_time, usual_grid = (
        np.median([each[part] for each in theirs], axis=0) for part in range(3)
    )
    same = (count > 0) & _alike(count, usual_count) & _alike(grid, usual_grid) & (grid > 0)
    if time[same].sum() < LEAST_MATCHED * time.sum() or not usual_time[same].sum():
        return 0.0
    return float(time[same].sum() / usual_time[same].sum())


def _by_name(analysis: Analysis, device: int) -> tuple[F64, F64, F64]:
    """For each string of the trace: how often a kernel of this name runs in the window, ns, and blocks."""
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    kernels = kernels[~among(kernels, trace.collective_kernels)]
    names, length = trace.events.name[kernels], len(trace.strings)
    blocks = trace.attribute(Attribute.GRID, kernels)
    return (
        np.bincount(names, minlength=length).astype(np.float64),
        np.bincount(names, durations(trace, kernels), minlength=length).astype(np.float64),
        np.bincount(names, blocks, minlength=length).astype(np.float64),
    )


def _alike(own: F64, usual: F64) -> BOOL:
    return np.asarray(np.abs(own - usual) <= ALIKE * np.maximum(own, usual))


CLEARLY_MORE = 0.05  # of the window: what the late rank does more than the others
CLEARLY_SLOWER = 1.05  # times as long for the same kernels: GPUs of one kind differ by 1 to 3 %
NEARLY_AS_LATE = 0.5  # of the waiting for late ranks: less ends with them, the rest is then for the next one
LOUD_STEP = 0.3  # of the costliest step's waiting: the late rank shows in such a step

_CODE = """# Which rank is late, and by how much, without a profiler:
start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
start.record()
torch.distributed.barrier()
end.record()
torch.cuda.synchronize()
print(torch.distributed.get_rank(), start.elapsed_time(end), "ms waited")   # the late rank waits least"""


@rule
class LateRank(Rule):
    """Waiting inside collectives for the rank that arrives last."""

    id: ClassVar[str] = "late-rank"
    category: ClassVar[Category] = Category.STRAGGLER
    needs: ClassVar[frozenset[Need]] = frozenset({Need.GPU_EVENTS, Need.COLLECTIVES, Need.SEVERAL_RANKS})
    explanation: ClassVar[str] = """
What it found
    The same rank, or the same few, come late to the collectives. The others sit inside their communication kernels
    and wait.

Why it costs time
    A collective can only start when every rank is there. The whole group runs at the pace of the last one.

How it decides
    It matches collectives across ranks by process group, sequence, kind and size. The transfer takes about as long
    as the shortest participant; the rest of each longer one is waiting, and the shortest came last. It fires when
    more than half of all waiting ends with the arrival of one rank and costs more than {least-share} of the step. A
    moment in which several are missing is charged to them in equal parts: a second rank is named when a quarter of
    all waiting and 1 % of the step is for it, and several are named together when nine tenths are for them, each
    about as much. The ceiling is what the others expose beyond the late ranks, and, as far as these idle longer
    than they do, what they compute more slowly beside a waiting collective; but no more than a replay gains in which
    the late ranks take no CPU time at all. Where every rank's CPU is the limit, the latest one is so by chance, and
    that is little.

What to try
    Look at what the late rank does in that time: more GPU work (uneven batches, padding, an extra evaluation), more
    CPU work (logging, saving, data loading, a slower or busier CPU), copies, or a slower GPU (heat, power).

When it is wrong
    When only some of the ranks were recorded, the late one may be among the others. The profiler itself can slow
    one rank.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        ranks = ranks_of(analysis)
        late, ceiling = ranks.late, _ceiling(analysis, ranks)
        if late == MISSING or share(analysis, ceiling) < analysis.thresholds[LEAST_SHARE]:
            return
        device = ranks.devices[late]
        rank = trace.devices[device].rank
        name = listed(ranks.late_names)
        waits = ranks.waiting.sum(axis=0)
        waits[list(ranks.late_together)] = -1
        patient = int(waits.argmax())
        intervals = clip(analysis.time(ranks.devices[patient]).communication, *analysis.window)
        yield self.finding(
            analysis,
            headline=Headline(
                f"The others wait for {name}",
                of_every_step(analysis, share(analysis, ceiling)),
                names_culprit=True,
            ),
            account=_explanation(analysis, ranks, ceiling),
            remedies=_advice(analysis, ranks),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.RANK, name),
            because=_because(analysis, ranks),
            rank=rank if rank is not None else trace.devices[device].id,
            device=device,
            evidence=_evidence(trace, ranks, patient),
            intervals=pairs(intervals),
            example=_CODE,
            unknown=(_cannot_tell(ranks),),
        )


def _ceiling(analysis: Analysis, ranks: Ranks) -> int:
    """What the late ranks cost the others, as far as the others would not be as late themselves (ns).

    Where nothing says what the late ranks do differently, the others' kernels may be slower for reasons of their own:
    that counts no more than the waiting that is seen.
    """
    lost = ranks.lost_to_late
    if lost and not any(_instead(analysis, ranks, late) for late in ranks.late_together):
        lost = min(lost, 2 * int(np.delete(ranks.waiting.sum(axis=0), ranks.late_together).max()))
    if not lost or (gain := gain_without_late_ranks(analysis)) is None:
        return lost
    return min(lost, round((1 - 1 / max(gain, 1.0)) * analysis.window_ns))


def _cannot_tell(ranks: Ranks) -> Words:
    slower = ours(
        "Why its CPU or GPU is slower: compare clocks, temperature and CPU load of the machines ($GpuMonitor, top)."
    )
    missing = (
        f"Whether a rank that is not here comes even later: {ranks.unrecorded}. " if ranks.unrecorded else ""
    )
    error = int(max(ranks.clock_error, default=0))
    return missing + slower + f" The ranks' clocks agree within about {duration(max(error, 1000))}."


def _because(analysis: Analysis, ranks: Ranks) -> str:
    late = ranks.late_together[0]
    instead = _instead(analysis, ranks, late)
    return f"{_capital(ranks.table[late].name)} {_spends(analysis, instead[:1])}." if instead else ""


def _explanation(analysis: Analysis, ranks: Ranks, ceiling: int) -> str:
    late, *beside = ranks.late_together
    name = ranks.late_names[0]
    others = [row for column, row in enumerate(ranks.table) if column not in ranks.late_together]
    lasts, every = int((ranks.last[ranks.in_window] == late).sum()), int(ranks.in_window.sum())
    waiting = max(row.waiting_ns for row in others)
    lost = percent(share(analysis, waiting))
    instead, since = _instead(analysis, ranks, late), _since(ranks, late)
    text = f"{_capital(name)} {_spends(analysis, instead)}. It" if instead else _capital(name)
    text += (
        f" comes last to {lasts} of {every} collectives, and {_waiters(len(others))} for "
        f"{'it' if not beside else 'late ranks'} there, up to {lost} of the time. That costs up to "
        f"{part_of_step(analysis, ceiling)}"
    )
    slowed = ceiling > waiting
    text += ", with what the waiting slows their own kernels down." if slowed else "."
    text += f" {since}" if since else ""
    if ceiling < NEARLY_AS_LATE * ranks.lost_to_late:
        text += " The others' own work takes nearly as long: without the late ranks they would wait for the next one."
    for column in beside:
        part = ranks.blamed[:, column].sum() / ranks.blamed.sum()
        text += f" {_capital(ranks.table[column].name)} comes late as well: {percent(part)} of the waiting is for it."
        text += _about(analysis, ranks, column)
    return text


def _about(analysis: Analysis, ranks: Ranks, late: int) -> str:
    """Since when one late rank is late and what it does instead, as sentences."""
    since, instead = _since(ranks, late), _instead(analysis, ranks, late)
    text = f" {since}" if since else ""
    return f"{text} Meanwhile {ranks.table[late].name} {_spends(analysis, instead)}." if instead else text


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def _waiters(count: int) -> str:
    return f"the other {count} wait" if count > 1 else "the other one waits"


def _since(ranks: Ranks, late: int) -> str:
    names, table = ranks.blamed_by_step()
    if len(names) < 2:
        return ""
    charged = table[:, late]
    loud = np.flatnonzero(charged > LOUD_STEP * charged.max(initial=0))
    if not len(loud):
        return ""
    if len(loud) >= len(names) - 1:
        return (
            "It is so in every step."
            if len(loud) == len(names)
            else f"It is so in {len(loud)} of {len(names)} steps."
        )
    return f"It begins in {names[int(loud[0])]} and shows in {len(loud)} of {len(names)} steps."


@dataclass(frozen=True, slots=True)
class _More:
    """Something that a late rank does longer than the others; ``doing`` completes "39 % more of the step ..."."""

    share: float
    cause: Cause | None  # None: its GPU works
    doing: str
    computes: bool = False
    slow: bool = False  # its GPU takes longer for the same work


def _instead(analysis: Analysis, ranks: Ranks, late: int) -> list[_More]:
    """What the late rank does clearly more of than the others, the most first."""
    budgets = [analysis.budgets(device) for device in ranks.devices]
    if not any(budget.compute_ns for budget in budgets):
        return []  # only communication is there: what lies between is not known to be idle
    mine = budgets[late]
    others = [budget for column, budget in enumerate(budgets) if column not in ranks.late_together]

    def excess(own: int, theirs: list[int]) -> float:
        return share(analysis, own - float(np.median(theirs)))

    ratio = times_as_long(analysis, mine.device, [each.device for each in others])
    slow = ratio >= CLEARLY_SLOWER
    computing = (
        f"computing: the same kernels take {percent(ratio - 1)} longer on its GPU" if slow else "computing"
    )
    more = [
        _More(
            excess(mine.compute_ns, [each.compute_ns for each in others]),
            None,
            computing,
            computes=True,
            slow=slow,
        ),
        _More(excess(mine.exposed_copy_ns, [each.exposed_copy_ns for each in others]), None, "copying"),
    ]
    for cause, doing in _DOING.items():
        culprit = _largest_culprit(analysis, ranks.devices[late], cause)
        idle = excess(mine.idle_ns[cause], [each.idle_ns[cause] for each in others])
        more.append(_More(idle, cause, f"{doing} ({culprit})" if culprit else doing))
    return sorted((each for each in more if each.share >= CLEARLY_MORE), key=lambda each: -each.share)


def _spends(analysis: Analysis, more: list[_More]) -> str:
    """ "spends 39 % more of the step waiting for its data and 16 % more computing"."""
    first, *further = more
    whole = "step" if analysis.steps_in_window else "time"
    parts = [f"{percent(first.share)} more of the {whole} {first.doing}"]
    parts += [f"{percent(each.share)} more {each.doing}" for each in further]
    return f"spends {listed(parts)}"


_DOING = {
    Cause.HOST: "waiting for its own Python code",
    Cause.INPUT: "waiting for its data",
    Cause.LAUNCH: "waiting for its CPU to launch",
    Cause.SYNCHRONIZATION: "blocked by synchronisation",
    Cause.ALLOCATOR: "allocating memory",
    Cause.UNKNOWN: "idle for an unknown reason",
}


def _largest_culprit(analysis: Analysis, device: int, cause: Cause) -> str:
    idle = analysis.idle
    t0, t1 = analysis.window
    mine = (idle.device == device) & (idle.cause == cause) & (idle.end > t0) & (idle.start < t1)
    if not mine.any():
        return ""
    total = np.bincount(idle.culprit[mine], (idle.end - idle.start)[mine], minlength=len(idle.culprits))
    return idle.culprits[int(total.argmax())].text


def _evidence(trace: Trace, ranks: Ranks, patient: int) -> tuple[Evidence, ...]:
    mine = np.flatnonzero(np.isin(ranks.last, ranks.late_together) & ranks.present[:, patient])
    mine = mine[np.argsort(-ranks.waiting[mine, patient], kind="stable")][:20]
    return evidence_of(trace, ranks.columns.event[ranks.row[mine, patient]])


def _advice(analysis: Analysis, ranks: Ranks) -> tuple[Words, ...]:
    changes = dict.fromkeys(
        _change(ranks.table[late].name, _instead(analysis, ranks, late)) for late in ranks.late_together
    )
    return (
        *changes,
        "Compare the ranks' rows in the Ranks tab: compute, communication and waiting for each step.",
    )


def _change(name: str, instead: list[_More]) -> Words:
    if instead and instead[0].slow:
        return (
            f"Look at {name}'s GPU: "
            + ours("$ClocksAndHeat says whether heat or a power limit slows it, and ")
            + ours("$GpuMonitor whether another program uses it.")
        )
    if instead and instead[0].computes:
        return (
            f"Give {name} the same amount of GPU work as the others: equal batches and sequence lengths, and "
            "nothing that only it computes."
        )
    if instead and instead[0].cause is Cause.INPUT:
        return (
            f"Give {name} data as fast as the others get it: equal shares of the files, storage as near, and as many "
            "loader workers with cores of their own."
        )
    if instead and instead[0].cause in (Cause.HOST, Cause.LAUNCH):
        return (
            f"Take CPU work off {name}: log, save and evaluate elsewhere or in a thread, and give its process cores "
            "of its own."
        )
    return f"Find out what {name} does differently: its machine, its input, its clocks."
