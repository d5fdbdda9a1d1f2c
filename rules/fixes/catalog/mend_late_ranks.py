"""Ranks that are late are brought to the times of the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, CopyKind
from parsers.model.arrays import median_of
from parsers.model.late import dataclass
from parsers.model.names.calls import WORK_CALLS
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.groups import stages_of
from rules.analysis.ranks.reasons import Reason, Why
from rules.analysis.ranks.recorded import ranks_of
from rules.findings.category import Category
from rules.fixes.base import Proposal, Remedy, fix
from rules.fixes.changes import copies, of_nodes
from rules.remedies.communication import (
    OF_THE_GPU,
    keep_up_with,
    late_data,
    more_cpu_work,
    more_gpu_work,
    slow_gpu,
)
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import Words, listed

MIN_MORE = 1.5  # times the others' median of calls
MIN_MORE_CALLS = 20


def part_of_all_ranks(replay: Replay) -> F64:
    """For each call of the replay the part of its stretch that the other ranks do as well; 1 where they do as much.

    A stretch lies between two collectives of one rank; those of all ranks correspond by their number within a step,
    where all take part in equally many. Work is counted in calls.
    """
    host, device = replay.host, replay.device
    span = host.span_of_thread[host.thread]
    meets = np.zeros(len(host), np.int64)
    meets[device.launch[device.meeting >= 0]] = 1
    order = np.lexsort((host.start, host.step, span))
    key = np.column_stack((span[order], host.step[order]))
    begins = np.append(True, (np.diff(key, axis=0) != 0).any(axis=1))
    if len(set(np.bincount(span, meets, minlength=len(replay.spans)))) > 1:
        return np.ones(len(host))
    count = np.cumsum(meets[order])
    before = count - meets[order]
    number = count - np.maximum.accumulate(np.where(begins, before, 0))
    stretch = np.empty(len(host), np.int64)
    stretch[order] = number
    works = np.isin(host.call, [int(each) for each in WORK_CALLS]).astype(np.float64)
    spans = len(replay.spans)
    _, place = np.unique(host.step * (int(number.max(initial=0)) + 1) + stretch, return_inverse=True)
    calls = np.bincount(place * spans + span, works).astype(np.float64)
    calls = np.append(calls, np.zeros(-len(calls) % spans)).reshape(-1, spans)
    part = np.ones_like(calls)
    for mine in range(spans):
        others = median_of(np.delete(calls, mine, axis=1), axis=1)
        more = (calls[:, mine] > MIN_MORE * others) & (calls[:, mine] - others >= MIN_MORE_CALLS)
        part[more, mine] = others[more] / calls[more, mine]
    return np.asarray(part[place, span])


MORE_HOST = 0.1  # beyond the others' median, of their host time: less is chance
MORE_COMPUTE = 0.05
MORE_WAITS = 1.5
# of the work between two collectives: what is waited for there is not waited for any more
MOSTLY_OF_ONE = 0.5
# of all waiting is for a late rank; one that nobody waits for may be as slow as it likes
MIN_WAITED_FOR = 0.25
# of a step without the profiler: a GPU that computes so much longer than the others is waited for
FILLS_STEP = 0.8


@dataclass(frozen=True, slots=True)
class _Excess:
    """What one rank has beyond the others: operations, host time (ns in all steps), waits, a factor of compute."""

    span: int
    operations: float
    own_ns: float
    input_ns: float
    waits: bool
    compute: float

    @property
    def late(self) -> bool:
        return self.operations > 0 or self.own_ns > 0 or self.input_ns > 0 or self.waits or self.compute > 1.0


@fix
class MendLateRanks:
    id = "mend-late-ranks"
    explanation = """
When it applies
    Some of several ranks that wait for each other load data, run Python, read back or compute longer than the median
    of the others, and at least a quarter of all waiting is for them, or their GPUs compute for at least 0.8 of a step
    without the profiler, which else makes every CPU late. Stages of a pipeline do different work by design: none of
    them is late.

What is changed in the replay
    Their excess over the others is gone: work between two collectives in which they launch 1.5 times as many
    operations, loading and Python time down to the others' amount, additional waits, and kernel times scaled to the
    others'. If a rank has more to compute, larger grids for its kernels, all compute as much as they do on average
    instead. Everything else is replayed.

What makes it more or less
    If the others are nearly as late, little is gained; the replay accounts for that. A rank whose every call is
    slower is last because of its machine or by chance, and no change to the program is predicted to help it.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if len(replay.spans) < 2 or not (replay.device.meeting >= 0).any() or stages_of(analysis.trace):
            return
        told, busiest = _waited_for(analysis, replay)
        late = [each for each in _excesses(analysis, replay) if each.late and (told | busiest)[each.span]]
        if not late or len(late) == len(replay.spans):
            return
        names = [_name(replay, each.span) for each in late]
        categories = [Category.STRAGGLER]
        if sum(each.input_ns for each in late) > sum(each.own_ns for each in late):
            categories.append(Category.INPUT_BOUND)
        one = replay.spans[late[0].span].rank if len(late) == 1 else None
        why = _why(analysis, replay, late)
        yield Proposal(
            key=" ".join(names),
            title=f"Bring {listed(names)} up to the speed of the others: {_reasons(replay, late, why)}",
            categories=tuple(categories),
            culprit=listed(names),
            problem="" if told[[each.span for each in late]].any() else _unequal(names),
            rank=one,
            remedy=_remedy(late, listed(names), why),
            expected=_mended(analysis, replay, late, shares=any(each.why is Why.MORE for each in why)),
        )


def _unequal(names: list[str]) -> str:
    return f"Work is unequal: {listed(names)} compute{'s' if len(names) == 1 else ''} longest"


def _waited_for(analysis: Analysis, replay: Replay) -> tuple[BOOL, BOOL]:
    """The spans whose ranks the others wait for; and those whose GPU computes nearly all of a step.

    Without the profiler those are waited for as well: its cost hides it where it makes every rank's CPU late.
    """
    ranks = ranks_of(analysis)
    started = ranks.lateness.started
    late = {
        ranks.run.device(row)
        for row, part in enumerate((started / max(float(started.sum()), 1.0)).tolist())
        if part >= MIN_WAITED_FOR
    }
    told = np.array([not late.isdisjoint(span.devices) for span in replay.spans])
    return told, _work_of_spans(replay) >= FILLS_STEP * replay.usual_ns


def _work_of_spans(replay: Replay) -> F64:
    """What the GPUs of each span compute in a step (ns)."""
    device = replay.device
    works = np.where((device.meeting < 0) & replay.usual.present, replay.usual.duration, 0.0)
    return replay.scale * np.bincount(device.span, works, minlength=len(replay.spans)) / max(replay.steps, 1)


def _name(replay: Replay, span: int) -> str:
    rank = replay.spans[span].rank
    return f"rank {rank}" if rank is not None else f"GPU {replay.spans[span].devices[0]}"


def _why(analysis: Analysis, replay: Replay, late: list[_Excess]) -> tuple[Reason, ...]:
    """What the late ranks do more of, as the finding about them tells it."""
    ranks = ranks_of(analysis)
    devices = {device for each in late for device in replay.spans[each.span].devices}
    rows = [row for row in range(len(ranks.run.rows)) if ranks.run.device(row) in devices]
    return ranks.reasons(np.array(rows, np.int64))


def _reasons(replay: Replay, late: list[_Excess], why: tuple[Reason, ...]) -> str:
    one = len(late) == 1
    who, whose = ("it", "its") if one else ("they", "their")
    found = []
    if launching := [each.operations for each in late if each.operations > 0]:
        more = sum(launching) / len(launching) / replay.steps
        found.append(
            f"{who} {'launches' if one else 'launch'} {round(more):,} more operations {replay.in_step} than the others"
        )
    if any(each.input_ns > 0 for each in late):
        found.append(f"{who} {'takes' if one else 'take'} longer to load data")
    if any(each.own_ns > 0 for each in late):
        found.append(f"{who} {'does' if one else 'do'} extra work on the CPU")
    if any(each.waits for each in late):
        found.append(f"{who} {'reads' if one else 'read'} values back")
    if any(each.compute > 1.0 for each in late):
        found.append(_kernels(why, whose, one=one))
    return listed(found)


def _kernels(why: tuple[Reason, ...], whose: str, *, one: bool) -> str:
    slow = next((each for each in why if each.why is Why.SLOW), None)
    if slow is not None:
        return f"the same kernels take {percent(slow.times - 1)} longer on {whose} GPU{'' if one else 's'}"
    more = next((each for each in why if each.why is Why.MORE), None)
    if more is not None:
        return f"{whose} GPU{' has' if one else 's have'} {percent(more.times - 1)} more work"
    if any(each.why is Why.CLOCK for each in why):
        return f"{whose} {'clock is' if one else 'clocks are'} lower"
    return f"{whose} kernels take longer"


def _remedy(late: list[_Excess], names: str, why: tuple[Reason, ...]) -> Remedy:
    """What the finding advises first, then what mends the other differences."""
    advice: list[Words] = []
    if any(each.input_ns > 0 for each in late):
        advice.append(late_data(names))
    if any(each.operations > 0 or each.own_ns > 0 or each.waits for each in late):
        advice.append(more_cpu_work(names))
    if any(each.compute > 1.0 for each in late):
        known = [keep_up_with(names, each) for each in why if each.why in (*OF_THE_GPU, Why.MORE)]
        advice += known or [more_gpu_work(names), slow_gpu(names)]
    first = keep_up_with(names, why[0]) if why else ""
    return Remedy(tuple(sorted(advice, key=lambda each: each != first)))


def _excesses(analysis: Analysis, replay: Replay) -> list[_Excess]:
    host, device, around = replay.host, replay.device, surroundings_of(analysis)
    spans = len(replay.spans)
    of_node = host.span_of_thread[host.thread]
    usual = replay.usual
    part = part_of_all_ranks(replay)
    operations = np.bincount(device.span, 1.0 - part[device.launch], minlength=spans)
    whole = np.bincount(of_node, usual.gap + usual.cost, minlength=spans)
    loading = np.bincount(of_node, part * np.minimum(around.input_ns, usual.gap), minlength=spans)
    own = np.bincount(
        of_node,
        part * np.minimum(np.maximum(around.silent_ns - around.input_ns, 0), usual.gap),
        minlength=spans,
    )
    reads = of_nodes(replay, copies(replay, CopyKind.D2H))
    waits = np.bincount(of_node, part * (reads & replay.waits.bound), minlength=spans)
    working = device.meeting < 0
    compute = np.bincount(
        device.span[working], (part[device.launch] * device.duration)[working], minlength=spans
    )
    found = []
    for span in range(spans):
        others = np.arange(spans) != span
        least = MORE_HOST * float(median_of(whole[others]))
        more_loading = float(loading[span] - median_of(loading[others]))
        more_own = float(own[span] - median_of(own[others]))
        middle = float(median_of(compute[others]))
        found.append(
            _Excess(
                span,
                float(operations[span]),
                more_own if more_own > least else 0.0,
                more_loading if more_loading > least else 0.0,
                bool(waits[span] > MORE_WAITS * median_of(waits[others]) + replay.steps * 2),
                compute[span] / middle if middle and compute[span] > (1 + MORE_COMPUTE) * middle else 1.0,
            )
        )
    return found


def _mended(analysis: Analysis, replay: Replay, late: list[_Excess], *, shares: bool) -> Change:
    """Without the excess; ranks that have more to compute give it to the others (``shares``)."""
    host, device, around = replay.host, replay.device, surroundings_of(analysis)
    of_node = host.span_of_thread[host.thread]
    silent = np.maximum(around.silent_ns - around.input_ns, 0.0)
    less = np.zeros(len(host))
    unwaited = np.zeros(len(host), bool)
    mended = np.isin(of_node, [each.span for each in late])
    part = np.where(mended, part_of_all_ranks(replay), 1.0)
    factor = np.where(device.meeting < 0, part[device.launch], 1.0)
    reads = of_nodes(replay, copies(replay, CopyKind.D2H))
    for each in late:
        mine = of_node == each.span
        for amount, column in ((each.input_ns, around.input_ns), (each.own_ns, silent)):
            there = (part * column)[mine]
            less[mine] += there * min(1.0, amount / max(float(there.sum()), 1.0))
        if each.waits:
            unwaited |= mine & ((replay.waits.target >= 0) | reads)
        if not shares:
            factor[(device.span == each.span) & (device.meeting < 0)] /= each.compute
    if shares:
        work = np.bincount(device.span, (device.meeting < 0) * factor * device.duration)
        factor = np.where(
            device.meeting < 0, factor * (work.mean() / np.maximum(work, 1.0))[device.span], 1.0
        )
    unwaited |= part < MOSTLY_OF_ONE
    copied = unwaited & reads
    launched = copied[device.launch]

    def change(overlay: Overlay) -> None:
        overlay.gap *= part
        overlay.cost *= part
        overlay.gap -= np.minimum(less, overlay.gap)
        overlay.waits[unwaited] = False
        overlay.cost[unwaited] = 0.0
        overlay.present[launched] = False
        overlay.duration *= factor

    return change
