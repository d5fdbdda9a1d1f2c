"""Ranks that wait for one that is late, that never talk to each other, or that meet too often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from parsers.model.arrays import median_of
from parsers.model.names.devices import device_name
from parsers.model.units import duration, percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, pairs, subtract, union
from rules.analysis.cpu.cpu_time import collectives_on_cpu
from rules.analysis.gpu.inside_window import operations
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.collectives import CollectiveColumns, collective_columns
from rules.analysis.ranks.groups import NEIGHBOURS, messages_passed_on, stages_of, waiting_in_receives
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.recorded import RecordedRun, ranks_of
from rules.findings.base import Category, Evidence, Finding, Need, Rule, Severity, remedy, rule
from rules.losses.lost_time import any_stream, event_evidence, evidence_of, extent
from rules.remedies.communication import (
    BESIDE_COMPUTATION,
    JOIN_MESSAGES,
    MICRO_BATCHES_FOR_STAGE,
    full_pipeline,
    keep_up,
)
from rules.replay.late_ranks import gain_without_late_ranks
from rules.terms import MIN_SHARE, NEARLY_ALL, Culprit, CulpritKind, Unit, threshold
from rules.wording.late_ranks import because, cannot_tell, clocks_agree, explanation, headline, late_names
from rules.wording.words import (
    Headline,
    counted,
    for_python,
    for_pytorch,
    listed,
    of_every_step,
    ours,
    part_of_step,
    share,
    without_stacks,
)

MAX_EVIDENCE = 20
MANY_MEETINGS = 5  # of which the first one alone is late: fewer say little about the later ones


@rule
class LateRank(Rule):
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
    that is little. Where no steps repeat, and the first of at least 5 collectives holds nine tenths of the waiting, the
    rank only starts later: the finding is low then.

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
        starts = _only_starts_late(analysis, ranks, patient)
        intervals = clip(ranks.run.alone(patient), *analysis.window)
        yield self.finding(
            analysis,
            headline=headline(ranks, ceiling),
            account=explanation(ranks, ceiling) + (_AT_THE_START if starts else ""),
            severity=Severity.LOW if starts else None,
            of_recording=starts,
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


_AT_THE_START = " Nearly all of it is at the first one: this rank starts later, which comes once."


def _only_starts_late(analysis: Analysis, ranks: Ranks[RecordedRun], patient: int) -> bool:
    """Whether the row that waits most does so at its first collective alone, of several, where no steps repeat."""
    meetings, run = ranks.run.meetings, ranks.run
    mine = meetings.of_row(patient)
    if analysis.steps_in_window > 1 or len(mine) < MANY_MEETINGS:
        return False
    start, waited = run.columns.start[run.places[mine]], meetings.waiting[mine]
    return bool(waited[start.argmin()] >= NEARLY_ALL * waited.sum())


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


_CODE = """torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
# without this (or FSDP) every rank trains a model of its own"""


@rule
class NoCommunication(Rule):
    id = "no-communication"
    category = Category.EXPOSED_COMMUNICATION
    needs = frozenset({Need.GPU_EVENTS, Need.SEVERAL_RANKS})
    explanation = """
What it found
    Several ranks were recorded, and none of them ran a communication kernel.

Why it costs time
    It may cost no time at all, but it is suspicious: ranks that train one model must exchange gradients.

How it decides
    At least two ranks have GPU work, no kernel's name belongs to NCCL, RCCL, NVSHMEM or another known library, and no
    collective ran on the CPU (gloo, MPI).

What to try
    Check that the model is wrapped (DistributedDataParallel, FSDP) and that the recording contains whole steps.

When it is wrong
    Independent workers, such as inference replicas, need no communication; nor do copies between GPUs of one process.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        ranks = {trace.devices[device].rank for device in analysis.active_devices} - {None}
        if len(ranks) < 2 or len(trace.collective_kernels) or len(collectives_on_cpu(trace)):
            return
        yield self.finding(
            analysis,
            headline=Headline(f"{len(ranks)} ranks and no communication between them"),
            account=(
                f"{len(ranks)} ranks were recorded and ran GPU work, but none of their kernels is a "
                "collective. If they train one model, gradients are not exchanged."
            ),
            remedy=remedy(
                for_python("Check that the model is wrapped in DistributedDataParallel or FSDP."),
                native=(BESIDE_COMPUTATION,),
                code=for_python(_CODE),
            ),
            evidence=event_evidence(trace, operations(analysis, analysis.active_devices[0]), 1),
            unknown=("Whether communication happens outside the recorded steps: record whole steps.",),
            confidence="low",
        )


SMALL_BYTES = threshold(
    "small-collective",
    "a collective counts as small below this many bytes",
    Unit.BYTES,
    1_000_000,
    least=1_000,
    most=1_000_000_000,
    source="below 1 MB, a ring all-reduce over NVLink is limited by latency, not by bandwidth",
)
MANY_A_STEP = threshold(
    "many-collectives",
    "small collectives count as many from this number per step",
    Unit.COUNT,
    20,
    least=1,
    most=100_000,
    source="fewer cost less than reducing one bucket of gradients",
)


@rule
class ManySmallCollectives(Rule):
    id = "many-small-collectives"
    category = Category.COMMUNICATION_LATENCY
    needs = frozenset({Need.GPU_EVENTS, Need.COLLECTIVES})
    explanation = """
What it found
    A step sends many small messages between the GPUs.

Why it costs time
    Every collective costs 10 to 50 us before the first byte moves. Below about 1 MB that latency is most of its
    time, so a hundred small ones take far longer than one large one with the same data.

How it decides
    It counts collectives below {small-collective} whose size was recorded. It fires when there are at least
    {many-collectives} per step and the exposed ones make up at least {least-share} of the step, without the time a
    rank waits for a later one. The ceiling is the time of all but one of them.

What to try
    Combine tensors before sending them: larger DDP buckets (bucket_cap_mb), larger FSDP units, one flattened
    all-reduce, torch.distributed._coalescing_manager.

When it is wrong
    If each message depends on the result of the previous one, they cannot be combined.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        ranks = ranks_of(analysis)
        columns = ranks.run.columns
        t0, t1 = analysis.window
        for device in analysis.active_devices:
            small = (
                (columns.device == device)
                & (columns.bytes > 0)
                & (columns.bytes < analysis.thresholds[SMALL_BYTES])
            )
            small &= (columns.start >= t0) & (columns.start < t1)
            count = int(small.sum())
            if count < analysis.thresholds[MANY_A_STEP] * max(analysis.steps_in_window, 1):
                continue
            covered = union(columns.start[small], columns.end[small])
            exposed = clip(intersect(covered, analysis.time(device).communication), t0, t1)
            exposed = subtract(exposed, ranks.exposed_waits(ranks.run.row_of(device)))
            ceiling = int(length(exposed) * (1 - 1 / count))
            if share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
                continue
            typical = int(median_of(columns.bytes[small]))
            yield self.finding(
                analysis,
                headline=Headline(
                    "Many small messages between GPUs", of_every_step(analysis, share(analysis, ceiling))
                ),
                account=(
                    f"{counted(analysis, count, 'collective')} of {size(typical)} each (median), "
                    f"{duration(float(median_of((columns.end - columns.start)[small])))} each, are exposed for "
                    f"{part_of_step(analysis, length(exposed))}. Most of that is latency, not transfer."
                ),
                remedy=JOIN_MESSAGES,
                ceiling_ns=ceiling,
                culprit=Culprit(CulpritKind.COLLECTIVE, str(np.array(columns.collective)[small][0])),
                device=device,
                evidence=event_evidence(trace, columns.event[small]),
                intervals=pairs(exposed),
                unknown=(
                    without_stacks(
                        trace, for_pytorch("Which code sends them: record with stacks (with_stack=True).")
                    ),
                ),
            )
            return


UNKNOWN = "Which stages have more layers than others, if all are busy all the time."
# micro-batches for each stage: a fifth of the time is left empty at most (GPipe, Huang et al. 2019)


@rule
class PipelineBubble(Rule):
    id = "pipeline-bubble"
    category = Category.PIPELINE_BUBBLE
    needs = frozenset({Need.GPU_EVENTS, Need.COLLECTIVES})
    explanation = """
What it found
    The GPUs are stages of a pipeline, and some of them have nothing to do while the others work.

Why it costs time
    The last stage begins when the first micro-batch has passed all others, and the first stage finishes before all
    others. With p stages and m micro-batches, each stage is empty for (p - 1) of (m + p - 1) slots.

How it decides
    GPUs form a pipeline if most messages between them are sends and receives, one GPU begins with a send and every
    other one with a receive. A stage waits before its first and after its last operation, and in receives to the
    extent that they take longer than the fastest message of their size. The mean over the stages is the ceiling.

What to try
    More micro-batches in each step, a schedule that starts backward passes early (1F1B, interleaved), and balanced
    stages.

When it is wrong
    If only part of the run was recorded on some GPUs, or a stage began late for a reason of its own.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        stages = stages_of(trace)
        waits = {stage: bubble_of(analysis, stage) for stage in stages}
        ceiling = sum(map(length, waits.values())) // max(len(stages), 1)
        if not stages or share(analysis, ceiling) < analysis.thresholds[MIN_SHARE]:
            return
        worst = max(stages, key=lambda stage: length(waits[stage]))
        found_in = extent(analysis, waits[worst], worst)
        each = [
            f"{device_name(trace, stage)} {percent(share(analysis, length(waits[stage])))}"
            for stage in stages
        ]
        yield self.finding(
            analysis,
            headline=Headline("Pipeline stages wait for each other", found_in.share(ceiling)),
            account=told_of(found_in.part(ceiling), each, passed_on(analysis)),
            remedy=full_pipeline(len(stages)),
            ceiling_ns=ceiling,
            culprit=NEIGHBOURS,
            device=worst,
            evidence=tuple(
                Evidence(any_stream(trace, worst), start, end, NEIGHBOURS.text)
                for start, end in sorted(pairs(waits[worst]), key=lambda pair: pair[0] - pair[1])[:20]
            ),
            intervals=pairs(waits[worst]),
            unknown=(UNKNOWN,),
        )


def bubble_of(analysis: Analysis, stage: int) -> Intervals:
    """Where a stage has nothing to do because of the others, inside the window."""
    time = analysis.time(stage)
    return bubble(
        collective_columns(analysis.trace),
        stage,
        time.communication,
        time.idle[Cause.NEIGHBOURS],
        analysis.window,
    )


def bubble(
    columns: CollectiveColumns,
    stage: int,
    communication: Intervals,
    outside: Intervals,
    window: tuple[int, int],
) -> Intervals:
    """The same from a stage's exposed ``communication`` and its time before and after its work."""
    start, end = waiting_in_receives(columns, stage, *window)
    waits = intersect(union(start, np.maximum(start, end)), communication)
    return clip(
        union(np.concatenate((waits[0], outside[0])), np.concatenate((waits[1], outside[1]))), *window
    )


def told_of(part: str, each: Sequence[str], micro_batches: int) -> str:
    """What is told of stages that are empty for ``part`` of the time; ``micro_batches`` in a step, 0 if unknown."""
    return (
        f"{len(each)} GPUs pass their work on to each other, and each has nothing to do until work reaches it, and "
        f"after its last: {part}, averaged over them. Empty: {listed(each)}. "
        + _by_micro_batches(micro_batches, len(each))
    )


def passed_on(analysis: Analysis) -> int:
    """Micro-batches in a step; 0 where that is unknown."""
    if not (steps := analysis.steady_steps):
        return 0
    first, last = min(step.start for step in steps), max(step.end for step in steps)
    messages = messages_passed_on(collective_columns(analysis.trace), first, last)
    return round(messages / analysis.steps_in_window) if analysis.steps_in_window else 0


def _by_micro_batches(found: int, stages: int) -> str:
    """What a step with a few and with enough micro-batches leaves empty, by the formula."""
    enough = MICRO_BATCHES_FOR_STAGE * stages
    if found and found < enough:
        few = f"{found:,} micro-batch{'es' if found > 1 else ''} a step {'were' if found > 1 else 'was'} passed on. "
        return (
            f"{few}Where each step begins with empty stages, that leaves (p - 1) of (m + p - 1) slots empty, "
            f"{percent(empty_slots(found, stages))} of the time; {enough:,} micro-batches leave "
            f"{percent(empty_slots(enough, stages))}."
        )
    return f"With {enough:,} micro-batches, equal stages are idle {percent(empty_slots(enough, stages))} of the time."


def empty_slots(micro_batches: int, stages: int) -> float:
    """The bubble of a pipeline of equal stages that is filled and emptied once (GPipe, Huang et al. 2019)."""
    return (stages - 1) / (micro_batches + stages - 1)
