"""Ranks that wait less for each other: fewer values reduced, equal work, a filled pipeline."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, EventKind
from parsers.model.arrays import distinct_values, median_of
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import collective_columns
from rules.analysis.ranks.groups import messages_passed_on, stages_of
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import (
    durations_times,
    first_members,
    host_time_times,
    less_host_time,
    together,
    without_calls,
    without_meetings,
)
from rules.fixes.loops.filled import joined
from rules.fixes.reduced_in_turn import meetings_inside, own_time, reduced_in_turn, values_of
from rules.losses.owners import place_of
from rules.remedies.communication import EQUAL_WORK, MICRO_BATCHES_FOR_STAGE, full_pipeline
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

_VALUES_CODE = """\
norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])   # one reduction, sharded or not

values = torch.stack([loss, accuracy, scale])
torch.distributed.all_reduce(values)
loss, accuracy, scale = values.tolist()        # one message, and the CPU waits once"""


@fix
class ReduceValuesTogether:
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
                code=for_pytorch(_VALUES_CODE),
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


FEW = 4  # synchronised normalisations in a step: fewer cost next to nothing
_SYNCHRONISED = "SyncBatchNorm"
# what one that is not synchronised does as well; the rest counts samples, exchanges statistics and picks ranks by them
_NORMALISES = (
    "aten::batch_norm_stats",
    "aten::batch_norm_elemt",
    "aten::batch_norm_backward_reduce",
    "aten::batch_norm_backward_elemt",
)

_NORMALISING_CODE = """# leave out: model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
# with small batches: normalisation that needs no batch
norm = torch.nn.GroupNorm(32, channels)"""


@fix
class NormaliseOnEachGpu:
    id = "normalise-on-each-gpu"
    explanation = """
When it applies
    At least 4 synchronised batch normalisations per step in a run on several GPUs, judging by operator names.

What is changed in the replay
    The operators that compute statistics, normalise and go back stay, with their kernels. Everything else in them is
    gone: collectives, waits, kernels that count samples and join statistics, and the host's time for all that.

What makes it more or less
    Whether each GPU's batch is large enough for its own statistics: 16 or more samples are.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        around, device = surroundings_of(analysis), replay.device
        inside = around.around(_is_synchronised)
        often = (len(distinct_values(inside)) - 1) / max(replay.steps, 1) / max(len(replay.spans), 1) / 2
        if len(replay.spans) < 2 or often < FEW:
            return
        gone = (inside >= 0) & ~around.inside(_NORMALISES.__contains__)
        meeting = gone[device.launch] & (device.meeting >= 0)
        numbers = np.isin(distinct_values(device.meeting[device.meeting >= 0]), device.meeting[meeting])
        whole, stays = (
            around.time_inside(wanted, EventKind.CPU_OP)
            for wanted in (_is_synchronised, _NORMALISES.__contains__)
        )
        rest = np.maximum(whole - stays, 0.0)
        yield Proposal(
            title=(
                f"Normalise batches on each GPU separately: {often:,.0f} layers synchronise all ranks twice "
                f"{replay.in_step}"
            ),
            categories=(
                Category.COMMUNICATION_LATENCY,
                Category.EXPOSED_COMMUNICATION,
                Category.SYNCHRONIZATION,
            ),
            culprit="SyncBatchNorm",
            remedy=remedy(
                "With 16 or more samples per GPU, use each GPU's own statistics.",
                "With fewer, use a normalisation that needs no batch: group or layer normalisation.",
                code=for_pytorch(_NORMALISING_CODE),
            ),
            expected=together(
                without_meetings(replay, numbers),
                less_host_time(rest > 0, rest),
                without_calls(replay, gone, 0.0),
            ),
        )


def _is_synchronised(name: str) -> bool:
    return name.startswith(_SYNCHRONISED)


# the ranks' compute of all steps may differ by this part: then nobody has more work for good
SAME_IN_ALL = 0.1
MIN_SPREAD = 1.1  # the largest over the mean, in the median step


@fix
class EqualLengths:
    id = "equal-lengths"
    explanation = """
When it applies
    A different rank computes longest in each step, by at least a tenth, but over all steps they compute equally long.

What is changed in the replay
    In each step, every rank's kernels take the mean time of all ranks.

What makes it more or less
    Sorting or packing by length also removes padding, which gives more.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device, host = replay.device, replay.host
        spans, steps = len(replay.spans), replay.steps
        if spans < 2 or steps < 2 or not (device.meeting >= 0).any():
            return
        working = device.meeting < 0
        step = host.step[device.launch]
        compute = np.bincount(
            (device.span * steps + step)[working], device.duration[working], minlength=spans * steps
        ).reshape(spans, steps)
        mean = compute.mean(axis=0)
        if not mean.all():
            return
        whole = compute.sum(axis=1)
        spread = float(median_of(compute.max(axis=0) / mean))
        if spread < MIN_SPREAD or np.ptp(whole) > SAME_IN_ALL * whole.mean():
            return
        if len(distinct_values(compute.argmax(axis=0))) < 2:
            return
        factor: F64 = (mean[None, :] / np.maximum(compute, 1.0))[device.span, step]
        yield Proposal(
            title=(
                f"Balance the work of all ranks in each step: the longest computes {percent(spread - 1)} longer "
                "than the mean"
            ),
            categories=(Category.LOAD_IMBALANCE, Category.STRAGGLER, Category.EXPOSED_COMMUNICATION),
            culprit="unequal batches",
            remedy=EQUAL_WORK.and_then("Pack several short sequences into one row instead of padding."),
            expected=durations_times(working, factor),
        )


CALLS_OF_EACH = 0.9  # of a step's calls are made again for each further micro-batch; the update comes once


@fix
class FillPipeline:
    id = "fill-pipeline"
    explanation = """
When it applies
    The ranks mostly send to and receive from each other, and one of them begins with a send: they form a chain.

What is changed in the replay
    Stages wait for one another for half, a quarter, ... of the time with two, four, ... times as many micro-batches,
    and transfers overlap with computation. Nine tenths of a step's calls are made again for each further micro-batch.
    Of the numbers of micro-batches, up to four for each stage, the best is taken. At most, stages never wait, the calls
    cost nothing more, and the slowest stage is the limit.

What makes it more or less
    The number of micro-batches m: with s stages, (s - 1) of (m + s - 1) slots stay empty. Smaller micro-batches use
    the GPU less efficiently, and the CPU launches as much for each as for a large one.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        stages = len(stages_of(analysis.trace))
        if stages < 2 or len(replay.spans) < 2 or not (replay.device.meeting >= 0).any():
            return
        yield Proposal(
            title=f"Feed the pipeline more micro-batches: its {stages} stages wait for each other",
            categories=(Category.PIPELINE_BUBBLE, Category.EXPOSED_COMMUNICATION),
            culprit="pipeline",
            remedy=full_pipeline(stages),
            expected=_filled(analysis, replay, stages),
            high=_never_waiting(replay),
        )


def _never_waiting(replay: Replay) -> Change:
    return without_meetings(replay, np.ones(len(first_members(replay)[0]), bool))


def _filled(analysis: Analysis, replay: Replay, stages: int) -> Change:
    """With as many micro-batches as pay."""
    passes = messages_passed_on(collective_columns(analysis.trace), *analysis.window)
    now = max(round(passes / max(analysis.steps_in_window, 1)), 1)
    waits = max(replay.usual_ns - replay.time([_never_waiting(replay)]), 0.0)
    most = max(MICRO_BATCHES_FOR_STAGE * stages // now, 2)
    further = [_divided(replay, waits, 2**power) for power in range(1, most.bit_length())]
    return min(further, key=lambda change: replay.time([change]))


def _divided(replay: Replay, waits: float, times: int) -> Change:
    """With so many times as many micro-batches: what is waited for is shared, and calls are made for each."""
    device = replay.device
    work = np.bincount(device.span, replay.usual.duration * (device.meeting < 0))
    slowest = np.flatnonzero((device.meeting >= 0) & (device.span == int(work.argmax())))

    def waiting(overlay: Overlay) -> None:
        overlay.duration[slowest] = waits / times * replay.steps / len(slowest)

    calls = 1.0 + CALLS_OF_EACH * (times - 1)
    host = replay.host
    inside = np.append(False, (np.diff(host.step) == 0) & (np.diff(host.thread) == 0))
    return together(_never_waiting(replay), host_time_times(inside, calls), waiting)
