"""Launches that are fewer, cheaper or not waited for: fused optimizers, CUDA graphs, checks left out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind
from parsers.model.arrays import among, distinct_values
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.calls import WORK_CALLS, Call
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import contains, union
from rules.analysis.gpu.gpu_vendor import has_graphs
from rules.analysis.names.host_language import Audience, is_python, program_of
from rules.analysis.recording.captures import captures_in_steps, captures_of
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.backward import graph_breaks, nan_checks, noting_ns
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.catalog.join_loop import JoinLoop
from rules.fixes.changes import (
    counts_rows,
    durations_times,
    host_time_times,
    less_host_time,
    most_per_step,
    optimizer_calls,
    per_step,
    together,
    without_calls,
    without_waiting,
)
from rules.fixes.host_phases import own_work
from rules.fixes.loops.item_loops import in_loops
from rules.fixes.loops.passes import one_by_one
from rules.remedies.host_work import NO_ANOMALY_DETECTION
from rules.remedies.launching import CAPTURE_ONCE, DENSE_GRADIENTS, FUSED_OPTIMIZER, replayed_graph
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY, NEARLY_ALL
from rules.wording.words import Reader, for_python, ours, said

OTHERS = 4  # launches in a row that are not captured, at most, between those that warm up: filling a seed, a counter


def capturing(replay: Replay) -> tuple[BOOL, BOOL, F64]:
    """The calls that capture graphs and make them executable; those from the first warm-up to each capture; and how
    much of the time before each call is part of either.

    A warm-up calls what is then captured: the same operators with the same shapes, nearly all of them, right before.
    """
    host, threads = replay.host, replay.analysis.threads
    captures = captures_of(replay.analysis.trace)
    of_capture = threads.of_events(captures.call)
    captured, warming = np.zeros(len(host), bool), np.zeros(len(host), bool)
    time = host.gap.copy()
    key = _operators(replay)
    for thread, members in enumerate(host.members):
        mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
        ours = np.isin(of_capture, members)
        where = union(captures.start[ours], captures.end[ours])
        captured[mine] = contains(where, host.start[mine])
        for begin, end in zip(*(each.tolist() for each in where), strict=True):
            first = behind = mine.start + int(np.searchsorted(host.start[mine], begin))
            while behind < mine.stop and (host.start[behind] <= end or host.call[behind] == Call.GRAPH_BUILD):
                behind += 1
            if first == behind:
                continue
            captured[first:behind] = True
            of_step = mine.start + int(np.searchsorted(host.step[mine], host.step[first]))
            warm = first - _calls_of_warm_up(replay, key[of_step:first], key[first:behind], of_step)
            warming[warm:first] = True
            time[warm : warm + 1] = 0.0 if warm < first else min(host.gap[first], host.start[first] - begin)
    return captured, warming & ~captured, np.where(captured | warming, time, 0.0)


def _operators(replay: Replay) -> I64:
    """A number for each launch's operator and its shapes; -1 where they are not known, and for other calls."""
    trace, host = replay.analysis.trace, replay.host
    operator = surroundings_of(replay.analysis).whole_operator
    known = (operator >= 0) & of_kinds(host.call, *WORK_CALLS)
    found = np.full(len(host), -1, np.int64)
    dims = trace.attribute(Attribute.INPUT_DIMS, operator[known], -1)
    name = trace.events.name[operator[known]].astype(np.int64)
    found[known] = np.where(dims >= 0, name * (len(trace.strings) + 1) + dims, -1)
    return found


def _calls_of_warm_up(replay: Replay, before: I64, noted: I64, first: int) -> int:
    """How many of the last calls ``before`` a capture, which begin with the ``first`` node, warm up for it."""
    launches = np.flatnonzero(of_kinds(replay.host.call[first : first + len(before)], *WORK_CALLS))
    alike = np.flatnonzero(among(before[launches], distinct_values(noted[noted >= 0])))
    apart = np.diff(np.append(alike, len(launches)))
    breaks = np.flatnonzero(apart > OTHERS + 1)
    alike = alike[breaks[-1] + 1 :] if len(breaks) else alike
    enough = len(alike) >= max(NEARLY_ALL * np.count_nonzero(noted >= 0), 1)
    return len(before) - int(launches[alike[0]]) if enough else 0


MANY = 100  # launches of one optimizer step
FUSED_TIME = 0.4  # of the kernels' time: everything is read and written once (AdamW: 7 instead of 18 passes)
FUSED_HOST = 0.1  # of the host's time: a few launches for lists of parameters


@fix
class FuseOptimizer:
    id = "fuse-optimizer"
    switches = ("fused-optimizer", "foreach-optimizer", "no-optimizer")
    explanation = """
When it applies
    An optimizer's step launches more than 100 kernels. Without operators and ranges it is known by the kernels of Adam.

What is changed in the replay
    Its kernels take 0.4 of their time, and its host work takes a tenth.

What makes it more or less
    Whether the GPU or the CPU is the limit there; the replay accounts for that.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        around = surroundings_of(analysis)
        nodes = optimizer_calls(analysis) & (replay.waits.target < 0)
        launches = (
            np.count_nonzero(nodes & (replay.host.call == Call.LAUNCH))
            / max(replay.steps, 1)
            / len(replay.spans)
        )
        if launches < MANY:
            return
        operations = nodes[replay.device.launch] & (replay.device.meeting < 0)
        sparse = nodes & around.inside(lambda name: name.startswith("Optimizer.step#Sparse"))
        is_sparse = np.count_nonzero(sparse) > MAJORITY * np.count_nonzero(nodes)
        yield Proposal(
            title=(
                f"Make the gradients dense: the sparse optimizer's step launches {launches:,.0f} kernels"
                if is_sparse
                else f"Use a fused optimizer: its step launches {launches:,.0f} kernels"
            ),
            categories=(Category.LAUNCH_BOUND,),
            culprit="sparse optimizer" if is_sparse else "optimizer",
            remedy=DENSE_GRADIENTS if is_sparse else FUSED_OPTIMIZER,
            expected=together(durations_times(operations, FUSED_TIME), host_time_times(nodes, FUSED_HOST)),
            depends_on="how many rows the tables have: a dense step updates all of them" if is_sparse else "",
        )


MIN_KERNEL_NS = 20_000  # a shorter one may be over before its launch returns in any case
MIN_WAITED_FOR = 20  # of such
AFTER_NS = 100_000  # the call returns so soon after the end: one that is later waited for something else
LAUNCH_NS = 6_000.0  # of a launch that does not wait: recordings of H100 and H200


@fix
class LaunchAhead:
    id = "launch-ahead"
    explanation = """
When it applies
    Nine in ten launches of kernels of 20 us or more return within 100 us after the kernel ends, and not before.

What is changed in the replay
    A launch takes at most 6 us: the CPU prepares the next one while the GPU works.

What makes it more or less
    How long the CPU needs between two launches, which now overlaps with the GPU's work.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        waiting = blocking_launches(replay)
        if not waiting.any():
            return
        lost = per_step(replay, float(np.maximum(replay.host.cost[waiting] - LAUNCH_NS, 0.0).sum()))
        share = np.count_nonzero(waiting) / np.count_nonzero(replay.host.call == Call.LAUNCH)

        def change(overlay: Overlay) -> None:
            overlay.cost[waiting] = np.minimum(overlay.cost[waiting], LAUNCH_NS)
            overlay.waits[waiting] = False

        yield Proposal(
            title=(
                f"Stop launches from blocking: {percent(share)} of them wait for their own kernel, {duration(lost)} "
                f"{replay.in_step}"
            ),
            categories=(Category.LAUNCH_BOUND, Category.HOST_BOUND, Category.SYNCHRONIZATION),
            culprit="CUDA_LAUNCH_BLOCKING",
            problem="Launches wait for their own kernels",
            remedy=remedy(
                "CUDA_LAUNCH_BLOCKING=1 is set, or a debugger or sanitizer has the same effect. It is meant for "
                "finding errors: the CPU and the GPU take turns.",
                for_python(
                    "Unset it in the shell, the job script and the container, and check os.environ for it."
                ),
                code=for_python("unset CUDA_LAUNCH_BLOCKING"),
            ),
            expected=change,
        )


def blocking_launches(replay: Replay) -> BOOL:
    """The launches that return only once their kernel is done; none where only some do."""
    device, host = replay.device, replay.host
    kernels = np.flatnonzero(
        (replay.analysis.trace.events.kind[device.event] == EventKind.KERNEL)
        & (host.call[device.launch] == Call.LAUNCH)
    )
    late = host.end[device.launch[kernels]] - device.end[kernels]
    waits = (late >= 0) & (late <= AFTER_NS)
    long = device.end[kernels] - device.start[kernels] >= MIN_KERNEL_NS
    found = np.zeros(len(host), bool)
    if np.count_nonzero(long) >= MIN_WAITED_FOR and waits[long].mean() >= NEARLY_ALL:
        found[device.launch[kernels[waits]]] = True
    return found


MIN_LAUNCHES = 20  # between two waits: fewer are not worth a graph
NODE_NS = 500.0  # what launching a graph costs for each of its kernels: docs/predictions.md
GRAPH_NS = 10_000.0
MIN_TRAINING_SPEEDUP = 1.5  # times faster: a training step is much work to capture
# in a training step: what is read back more often is removed first, for nothing is inside a graph
FEW_WAITS = 4
MIN_KERNELS = 3  # different ones, where no steps were found
OTHER_LAUNCHES = 0.02  # of the launches of a step: a graph makes the same ones each time
_DESTROYS = regex(r"(cuda|cu|hip)Graph(Exec)?Destroy")
_CAPTURED = (Call.LAUNCH, Call.MEMSET, Call.COPY, Call.LOAD)


@fix
class ReplayCudaGraph:
    id = "replay-cuda-graph"
    switches = ("cuda-graph", "compile-reduce-overhead")
    explanation = """
When it applies
    There are stretches of 20 or more launches in which nothing is read back, with at least 3 different kernels where
    no steps were found, and most steps capture no graph. Training steps qualify only where launching takes most of the
    step, every step makes the same launches, and nothing simpler removes them: no loop over tensors, no optimizer that
    goes through its parameters one by one, no constant reading back of values, no graph breaks with a read-back, no
    launches that wait for their kernel.

What is changed in the replay
    The host time between and inside these launches is gone; launching a graph costs 0.5 us for each kernel in it.
    What an inference program does outside operators, every wait, and loops over items that multiply matrices, which
    can be done for all of them at once, stay. A training step is captured as a whole, except for phases of at least
    250 us in which the CPU does its own work.

What makes it more or less
    Shapes and addresses must be the same in every step. Whatever cannot be captured stays as it is.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        training = is_training(analysis)
        if len(replay.spans) > 1 or replay.host.threads > 1 or (training and not _alike(analysis, replay)):
            return
        if program_of(analysis.trace) is Audience.JAX or not has_graphs(analysis.trace):  # XLA makes its own
            return
        if captures_in_steps(analysis):  # it has its graphs
            return
        host, around = replay.host, surroundings_of(analysis)
        captured = of_kinds(host.call, *_CAPTURED) & (replay.waits.target < 0)
        run = np.cumsum(~captured | np.append(True, np.diff(host.step) != 0))
        if is_python(analysis.trace):
            captured &= ~(in_loops(analysis, replay, of_products=True) | one_by_one(analysis, replay))
        size = np.bincount(run[captured], minlength=int(run.max(initial=0)) + 1)
        inside = captured & (size[run] >= MIN_LAUNCHES)
        if not inside.any():
            return
        if not any(span.numbers for span in replay.spans) and _is_one_call(replay, inside):
            return
        first = np.zeros(len(inside), bool)
        first[np.flatnonzero(inside)[np.flatnonzero(np.diff(run[inside], prepend=-1))]] = True
        own = own_work(replay, around) if training else around.silent_ns
        kept = np.minimum(own + around.input_ns, host.gap)
        cost = np.where(first, GRAPH_NS + NODE_NS * size[run], 0.0)

        def graphed(overlay: Overlay) -> None:
            overlay.gap[inside] = np.minimum(overlay.gap[inside], kept[inside])
            overlay.cost[inside] = (
                np.minimum(overlay.cost[inside], cost[inside]) + np.where(first, cost, 0.0)[inside]
            )

        if training and replay.gain([graphed]) < MIN_TRAINING_SPEEDUP:
            return
        launches = np.count_nonzero(inside) / max(replay.steps, 1)
        yield Proposal(
            title=f"{said(ours('Replay a $CUDA graph'), Reader.of(analysis.trace))} instead of launching "
            f"{launches:,.0f} operations one by one {replay.in_step}",
            categories=(Category.LAUNCH_BOUND,),
            culprit="launches",
            remedy=replayed_graph(analysis.trace, training=training),
            expected=graphed,
            broad=training,
        )


def _is_one_call(replay: Replay, inside: BOOL) -> bool:
    """Whether all launches are of the same few kernels: a call that is measured over and over is no sequence."""
    launched = replay.device.event[inside[replay.device.launch]]
    return len(distinct_values(replay.analysis.trace.events.name[launched])) < MIN_KERNELS


def _alike(analysis: Analysis, replay: Replay) -> bool:
    """Whether every step makes the same launches, and none that a simpler change would remove."""
    of_step = np.bincount(replay.host.step[replay.device.launch], minlength=replay.steps)
    # where steps are not marked, the outer ones may be cut
    of_step = of_step[1:-1] if len(of_step) > 2 else of_step
    waits = np.count_nonzero(replay.waits.target >= 0) / max(replay.steps, 1)
    if np.ptp(of_step) > OTHER_LAUNCHES * of_step.max() or counts_rows(replay).any() or waits > FEW_WAITS:
        return False
    if graph_breaks(analysis).any():
        return False
    return not any(
        True
        for simpler in (FuseOptimizer(), JoinLoop(), LaunchAhead())
        for _ in simpler.proposals(analysis, replay)
    )


@fix
class StopCheckingForNan:
    id = "stop-checking-for-nan"
    explanation = """
When it applies
    At least 20 functions of the backward pass in a step, and half of them, check their result for NaN. Where no
    operators were recorded: on the backward pass's own thread, floating-point numbers are compared, the answers joined
    and one byte read back as often.

What is changed in the replay
    The checks are gone, with their kernels and the waits for the answers. Operators of the forward pass that have such
    a function lose the stretches of at least 50 us in which nothing else is recorded, but for 10 us: there they note
    down a stack. Where no operators were recorded, so do the times of 50 us to 1 ms between two calls of the other
    threads, if there are many.

What makes it more or less
    Stacks that take less than 50 us each stay.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        checks = nan_checks(analysis)
        if not checks.any():
            return
        answers = int(np.count_nonzero(checks & (replay.waits.target >= 0)) / max(replay.steps, 1))
        stacks = noting_ns(analysis)
        noting = most_per_step(replay, stacks)
        noted = f", and noting down stacks takes {duration(noting)}" if noting else ""
        yield Proposal(
            title=(
                f"Turn anomaly detection off: the backward pass checks for NaN {answers:,} times {replay.in_step}"
                f"{noted}"
            ),
            categories=(Category.SYNCHRONIZATION, Category.LAUNCH_BOUND, Category.HOST_BOUND),
            culprit="anomaly detection",
            problem="Anomaly detection is on",
            remedy=NO_ANOMALY_DETECTION.after(
                "Anomaly detection waits for the GPU after every function of the backward pass, and records a "
                "stack for every function of the forward pass."
            ),
            expected=together(
                without_calls(replay, checks), without_waiting(checks), less_host_time(stacks > 0, stacks)
            ),
        )


@fix
class CaptureOnce:
    id = "capture-once"
    explanation = """
When it applies
    At least half of the steady steps, and at least two, capture a CUDA graph and launch one.

What is changed in the replay
    The capture is gone, with the calls that make its graph executable and those that destroy an earlier one. So is what
    warms up for it: right before a capture, nearly as many launches as it holds or more, of the same operators with the
    same shapes, and what allocates or synchronises between them. At least, what warms up stays.

What makes it more or less
    Whether shapes and addresses are the same in each step: a graph for each of a few sizes helps where they are not.
    What looks like a warm-up may be work of the step itself.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if not captures_in_steps(analysis):
            return
        captured, warming, before = capturing(replay)
        if not captured.any():
            return
        destroying = surroundings_of(analysis).time_inside(_DESTROYS.match, EventKind.API)
        destroying[captured | warming] = 0.0
        taken = (before + np.where(captured | warming, replay.host.cost, 0.0) + destroying).sum()
        again = together(
            without_calls(replay, captured, gaps=0.0), less_host_time(~warming, before + destroying)
        )
        graph = said(ours("$CUDA graph"), Reader.of(analysis.trace))
        yield Proposal(
            title=f"Capture the {graph} once: it is captured anew, {duration(per_step(replay, float(taken)))} "
            f"{replay.in_step}",
            categories=(
                Category.RECOMPILATION,
                Category.HOST_BOUND,
                Category.LAUNCH_BOUND,
                Category.ALLOCATOR,
            ),
            culprit="graph capture",
            problem=ours("A $CUDA graph is captured anew in most steps"),
            remedy=CAPTURE_ONCE,
            expected=together(
                again, without_calls(replay, warming, gaps=0.0), less_host_time(warming, before)
            ),
            low=again,
            depends_on="whether what comes right before each capture only warms up for it",
        )
