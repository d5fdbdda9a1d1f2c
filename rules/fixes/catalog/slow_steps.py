"""Steps that are slower than the others: with an evaluation, with something beside, at a lower clock."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, derived
from parsers.model.arrays import distinct_values, median_of
from parsers.model.events import of_kinds
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import contains
from rules.analysis.inference.engine_steps import engine_steps
from rules.analysis.logs.clocks import Limit, clock_facts
from rules.analysis.names.families import Family
from rules.analysis.names.regions import RegionRole, role_of
from rules.analysis.steps.growth import grow
from rules.analysis.stretches.evaluations import evaluations
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, times, without_calls
from rules.remedies.clocks import higher_clock
from rules.remedies.host_work import EVALUATE_SELDOM, RARER_IN_SLOW_STEPS
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY


@derived
def evaluating(analysis: Analysis) -> BOOL:
    """For each host node of the replay, whether its thread evaluates the model then."""
    host = replay_of(analysis).host
    nodes = np.zeros(len(host), bool)
    for thread, members in enumerate(host.members):
        mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
        for each in members:
            nodes[mine] |= contains(evaluations(analysis, each), host.start[mine])
    return nodes


def evaluation_ns(replay: Replay) -> float:
    """How long all of it takes in the replayed steps: on the CPU, or on a GPU where that is longer."""
    nodes, host, device = evaluating(replay.analysis), replay.host, replay.device
    of_thread = np.bincount(host.thread, np.where(nodes, host.gap + host.cost, 0.0), minlength=1)
    of_rank = np.bincount(device.span, np.where(nodes[device.launch], device.duration, 0.0), minlength=1)
    return float(max(of_thread.max(), of_rank.max()))


LEFT = 0.1  # of the work: ten times less often
LEFT_AT_MOST = 1 / 3  # a third as often


@fix
class EvaluateLessOften:
    id = "evaluate-less-often"
    switches = ("no-evaluation",)
    explanation = """
When it applies
    The model is evaluated between the recorded steps: a range or function of such a name holds no backward pass, or
    the trained layers run without gradients after the optimizer's step.

What is changed in the replay
    All calls of the evaluation, and what they launch, take a tenth of their time: it is done ten times less often.

What makes it more or less
    How often the evaluation is needed: at most a third as often as now, or not at all.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = evaluating(analysis)
        taken = evaluation_ns(replay) / max(replay.steps, 1)
        if not nodes.any():
            return
        launched = nodes[replay.device.launch]
        few = len(distinct_values(replay.host.step[nodes])) < replay.steps
        yield Proposal(
            title=f"Evaluate less often: it takes {duration(taken)} {replay.in_step}",
            categories=(Category.EVALUATION, Category.HOST_BOUND, *((Category.VARIABILITY,) if few else ())),
            culprit="evaluation",
            remedy=EVALUATE_SELDOM,
            expected=times(nodes, launched, LEFT),
            low=times(nodes, launched, LEFT_AT_MOST),
            high=without_calls(replay, nodes),
            depends_on="how often the evaluation is needed",
        )


SLOW = 1.5  # times the median step (nsys-ai: longest step over the median)
OTHER_CALLS = 0.1  # more calls than the median step, or ...
OTHER_WORK = 0.3  # ... more time in stretches of its own, as a part of the step: else it is slow by chance


@fix
class SpreadSlowSteps:
    id = "spread-slow-steps"
    switches = ("no-logging", "no-evaluation", "gc-freeze")
    explanation = """
When it applies
    Fewer than half of the steps take more than 1.5 times the median, and they make different calls or work longer on
    the CPU. Steps of which each takes longer than the one before have no extra work: what they work on grows. Waiting
    for a batch, evaluating, and starting the data loader's workers anew have fixes of their own.

What is changed in the replay
    These steps are left out: the run continues with its typical steps.

What makes it more or less
    How often the additional work must be done, and how much of it another process or thread can take over.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        slow = _slow_steps(analysis, replay)
        count = int(np.count_nonzero(slow))
        if not count or len(engine_steps(analysis.trace).start):
            return  # a serving engine's steps differ by what requests ask for
        host, device = replay.host, replay.device
        culprit = _where(analysis, replay, slow)
        if role_of(culprit) is RegionRole.INPUT:
            return  # these steps wait for their batch: that is a fix of its own
        lengths = _lengths(replay)
        longer = float(np.mean(lengths[slow]) - median_of(lengths))
        around = surroundings_of(analysis)
        started = float(around.worker_starts_ns.sum() + around.first_batches_ns.sum()) / len(replay.spans)
        nodes = slow[host.step]
        compiled = float(around.script_compiling_ns[nodes].sum()) / len(replay.spans)
        if max(evaluation_ns(replay), started, compiled) >= MAJORITY * longer * count:
            return  # so is an evaluation, and so are workers that start anew; first calls of TorchScript come once
        operations = nodes[device.launch]
        meetings = distinct_values(device.meeting[operations & (device.meeting >= 0)])
        numbers = np.searchsorted(distinct_values(device.meeting[device.meeting >= 0]), meetings)
        typical = replay.steps - count
        after = slow[np.maximum(host.step - 1, 0)] & (host.step > 0)
        before = np.where(after, replay.of_step_before * replay.host.gap, 0.0)
        tail = bool(slow[-1])

        def left_out(overlay: Overlay) -> None:
            overlay.gap -= np.minimum(before, overlay.gap)
            overlay.gap[nodes] = 0.0
            overlay.cost[nodes] = 0.0
            overlay.waits[nodes] = False
            overlay.present[operations] = False
            overlay.transfer[numbers] = 0.0
            if tail:
                overlay.tail[:] = 0.0
            overlay.steps = float(typical)

        yield Proposal(
            title=(
                f"Remove the extra work of {count} of {replay.steps} steps: it costs {duration(longer)} each time"
            ),
            categories=(Category.VARIABILITY, Category.HOST_BOUND),
            culprit=culprit,
            remedy=RARER_IN_SLOW_STEPS,
            expected=left_out,
        )


def _lengths(replay: Replay) -> F64:
    """How long each step took on the rank where it took longest, ns."""
    longest: F64 = np.max([np.diff(span.edges) for span in replay.spans], axis=0).astype(np.float64)
    return longest


def _slow_steps(analysis: Analysis, replay: Replay) -> BOOL:
    lengths = _lengths(replay)
    none = np.zeros(len(lengths), bool)
    if grow(lengths):
        return none
    median = float(median_of(lengths))
    slow = lengths > SLOW * median
    host = replay.host
    calls = np.bincount(host.step, minlength=len(lengths)).astype(np.float64)
    silent = np.maximum(surroundings_of(analysis).silent_ns - surroundings_of(analysis).pauses_ns, 0.0)
    earlier = np.minimum(replay.of_step_before * replay.host.gap, silent)
    own = np.bincount(host.step, silent - earlier, minlength=len(lengths)).astype(np.float64)
    own = own + np.bincount(np.maximum(host.step - 1, 0), earlier, minlength=len(lengths))
    own = own / len(replay.spans)
    more_calls = np.abs(calls - median_of(calls)) > OTHER_CALLS * median_of(calls)
    more_work = own - median_of(own) > OTHER_WORK * lengths
    slow &= more_calls | more_work
    return slow if 0 < np.count_nonzero(slow) < 0.5 * len(lengths) else none


def _where(analysis: Analysis, replay: Replay, slow: BOOL) -> str:
    """The place of the longest stretch in the slow steps."""
    around = surroundings_of(analysis)
    silent = np.where(slow[replay.host.step], around.silent_ns, 0.0)
    return around.place(int(silent.argmax())) if silent.any() else "slow steps"


_COMPUTING = (Family.GEMM, Family.CONVOLUTION, Family.ATTENTION)


@fix
class EndThrottling:
    id = "end-throttling"
    explanation = """
When it applies
    A device log opened with the recording says that a limit held the clock down.

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
        for number in distinct_values(device.device).tolist():
            facts = clock_facts(analysis, number)
            if facts is None or facts.main is None:
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
