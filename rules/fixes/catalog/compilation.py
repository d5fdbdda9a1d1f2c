"""Compiling: the model, once, without breaks; and what JAX dispatches one by one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, F64, EventKind
from parsers.model.arrays import distinct_values, median_of
from parsers.model.events import of_kinds
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.memory_bound import POINTWISE, memory_bound
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import Audience, program_of
from rules.analysis.names.operators import is_compiling
from rules.analysis.names.software import software_of
from rules.findings.category import Category
from rules.fixes.backward import beside_graph_breaks, compiling_ns, entering_graphs_behind, graph_breaks
from rules.fixes.base import Proposal, fix
from rules.fixes.catalog.faster_kernels import ALIGNED_AT_LEAST, ALIGNED_AT_MOST, unaligned_products
from rules.fixes.changes import (
    durations_times,
    host_time_times,
    less_host_time,
    of_nodes,
    optimizer_calls,
    per_step,
    share_of_own_work,
    together,
    without_calls,
    without_operations,
)
from rules.fixes.forms.shared_heads import shared_heads, shifted_spectra
from rules.fixes.forms.written import calls_of
from rules.fixes.host_phases import own_work
from rules.fixes.loops.item_loops import in_loops
from rules.kernels.launched_elements import spread_out
from rules.losses.owners import owners_of, place_of
from rules.remedies.compiling import COMPILE_ONCE, JIT_THE_STEP
from rules.remedies.kernels import fused_kernels
from rules.remedies.remedy import pytorch_remedy
from rules.replay.loops import loops_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY

# What is left of a chain's time is what joining neighbours leaves, times this: the compiler also fuses over
# reductions and keeps intermediate results in 16 bits (docs/predictions.md).
LEFT, LEFT_AT_MOST = 0.8, 0.6
SAVED_AT_LEAST = 0.6  # of what joining neighbours would save
FUSED_HOST, FUSED_HOST_AT_LEAST = 0.4, 0.7  # of the host's time for launching them ...
OTHER_HOST, OTHER_HOST_AT_LEAST = 0.6, 0.8  # ... and for launching what the compiler calls in between
FILLED = 0.97  # of the step: a GPU that is busier does not wait for launches
MIN_SHARE = 0.1  # of the GPU's time in such kernels, or of the launches
SPREAD, SPREAD_AT_LEAST, SPREAD_AT_MOST = 0.15, 0.4, 0.05  # of kernels on what fusing never writes
_LAUNCHES = (Call.LAUNCH, Call.MEMSET)
_NOT_FUSED = ("multi_tensor", "embedding", "index")


@fix
class CompileModel:
    id = "compile-model"
    switches = ("compile", "compile-reduce-overhead")
    explanation = """
When it applies
    At least a tenth of the GPU's time is spent in kernels that only move memory, and the model is not compiled.

What is changed in the replay
    Those kernels take what fusing neighbours in a chain would leave, less a fifth. The host needs 0.4 of the time to
    launch them and 0.6 to launch the others. Launches in loops over items or tensors stay, and so do copies for Fourier
    transforms and for heads that share keys: those have their own fixes. Kernels on a tensor of eight times as many
    elements as what it is made of and less when it is reduced, such as all differences between two lists, take 0.15 of
    their time: fused, it is never written. Kernels on complex numbers stay as they are, except at best. Products of
    unaligned data take 0.6 of their time, and 0.15 at best: the compiler pads them. With
    DistributedDataParallel or FSDP the compiler breaks the model where gradients or parameters are exchanged; then
    only what a model with graph breaks gains is expected.

What makes it more or less
    The compiler fuses everything between two matrix products; graph breaks, and reductions over other dimensions,
    keep kernels apart: then 0.6 of what fusing saves remains, and no product is padded.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        family = analysis.family_of_string[trace.events.name[device.event]]
        program = program_of(trace)
        if (family == Family.TRITON).any() or program is Audience.JAX:
            return
        found = [memory_bound(analysis, each) for each in analysis.active_devices]
        chained = np.isin(device.event, np.concatenate([each.events for each in found]))
        whole = np.bincount(device.member_of, minlength=len(device)) == 1
        fusable = chained & whole & ~named(trace, device.event, _is_kept) & ~_for_libraries(analysis, replay)
        share = share_of_own_work(replay, fusable)
        if share < MIN_SHARE:
            return
        saved = sum(each.saved_ns for each in found) / max(sum(each.total_ns for each in found), 1)
        left = 1.0 - min(saved, 1.0)
        busy = float(np.bincount(device.stream, replay.usual.duration).max()) / max(replay.steps, 1)
        launching = busy < FILLED * replay.usual_ns and _of_model(replay, analysis) >= MAJORITY
        products = unaligned_products(analysis, replay) & (family == Family.GEMM)
        compiled = fusable & ~named(trace, device.event, lambda name: "complex<" in name)
        spread = np.isin(device.event, spread_out(trace))

        def fused(mine: BOOL, left: float, of_spread: float, host_time: tuple[float, float]) -> Change:
            times = np.where(spread, np.minimum(of_spread, left), left)
            return _compiled(replay, analysis, mine, times, host_time)

        likely = together(
            fused(compiled, LEFT * left, SPREAD, (FUSED_HOST, OTHER_HOST)),
            durations_times(products, ALIGNED_AT_LEAST),
        )
        least = fused(
            compiled, 1 - SAVED_AT_LEAST * saved, SPREAD_AT_LEAST, (FUSED_HOST_AT_LEAST, OTHER_HOST_AT_LEAST)
        )
        in_pieces = not {"DistributedDataParallel", "FSDP"}.isdisjoint(software_of(trace))
        owners = owners_of(analysis, replay, fusable)
        mostly = f", mostly {owners}" if owners else ""
        categories = (Category.MEMORY_BOUND_KERNELS, *((Category.LAUNCH_BOUND,) if launching else ()))
        has_model = program not in (Audience.NATIVE, Audience.ARRAYS)
        change = "Compile the model" if has_model else "Fuse neighbouring kernels"
        waits = launching and replay.usual_ns - busy > share * busy * saved
        of_a_step = max(replay.steps * len(replay.spans), 1)
        joined, launched = (np.count_nonzero(each) / of_a_step for each in (fusable, device.meeting < 0))
        why = (
            f"the GPU waits for launches, and {joined:,.0f} of {launched:,.0f} {replay.in_step} can be joined"
            if waits
            else f"{percent(share)} of the GPU's time only moves memory"
        )
        yield Proposal(
            title=f"{change}: {why}{mostly}",
            categories=categories,
            culprit=f"{Family(int(np.bincount(family[fusable], device.duration[fusable]).argmax())).label} kernels",
            remedy=fused_kernels(analysis.trace),
            expected=least if in_pieces else likely,
            low=least,
            high=together(
                fused(fusable, LEFT_AT_MOST * left, SPREAD_AT_MOST, (FUSED_HOST, OTHER_HOST)),
                _one_kernel_each_round(analysis, replay, fusable),
                durations_times(products, ALIGNED_AT_MOST),
            ),
            broad=True,
            depends_on=(
                "how much of the model compiles without graph breaks"
                if has_model
                else "how many of them can become one"
            ),
        )


def _for_libraries(analysis: Analysis, replay: Replay) -> BOOL:
    """Copies that a library's transform or attention reads or has written: no compiler joins them with it."""
    copying = np.append(shifted_spectra(analysis), shared_heads(analysis).copying)
    return np.asarray(calls_of(analysis, copying)[replay.device.launch])


def _is_kept(name: str) -> bool:
    lower = name.lower()
    return any(word in lower for word in _NOT_FUSED)


def _one_kernel_each_round(analysis: Analysis, replay: Replay, fusable: BOOL) -> Change:
    """Every round of a formula is one kernel, as long as a usual one is now, and launched once.

    Nothing changes outside of loops of nothing but pointwise kernels.
    """
    device = replay.device
    family = analysis.family_of_string[analysis.trace.events.name[device.event]]
    other = of_nodes(replay, ~(fusable & of_kinds(family, *POINTWISE)))
    rounds = [loop for loop in loops_of(analysis) if not other[loop.first : loop.last].any()]
    usual, launches = device.duration.copy(), np.ones(len(replay.host))
    for loop in rounds:
        inside = (device.launch >= loop.first) & (device.launch < loop.last)
        usual[inside] = median_of(device.duration[inside]) / loop.body if inside.any() else 0.0
        launches[loop.first : loop.last] = 1 / loop.body

    def change(overlay: Overlay) -> None:
        overlay.duration = np.minimum(overlay.duration, usual)
        overlay.gap *= launches
        overlay.cost *= launches

    return change


def _of_model(replay: Replay, analysis: Analysis) -> float:
    """The part of the host's time for launching that is neither in loops over items nor in an optimizer."""
    launches = _short(replay, analysis) & of_kinds(replay.host.call, *_LAUNCHES)
    taken = replay.usual.gap + replay.usual.cost
    mine = launches & ~_apart(replay, analysis)
    return float(taken[mine].sum() / max(taken[launches].sum(), 1.0))


def _short(replay: Replay, analysis: Analysis) -> BOOL:
    """Calls that do not wait, with nothing else before them that takes the host's time."""
    around = surroundings_of(analysis)
    busy = np.minimum(around.silent_ns + around.input_ns, replay.host.gap) > 0
    return np.asarray(~busy & (replay.waits.target < 0))


def _apart(replay: Replay, analysis: Analysis) -> BOOL:
    """What is in loops over items or in an optimizer, which have their own fixes."""
    of_optimizer = surroundings_of(analysis).inside(lambda name: name.startswith("Optimizer."))
    return of_optimizer | optimizer_calls(analysis) | in_loops(analysis, replay)


def _compiled(
    replay: Replay, analysis: Analysis, fusable: BOOL, time: F64, host_time: tuple[float, float]
) -> Change:
    nodes = of_nodes(replay, fusable)
    short = _short(replay, analysis) & ~_apart(replay, analysis)
    own, others = short & nodes, short & ~nodes & of_kinds(replay.host.call, *_LAUNCHES)

    def change(overlay: Overlay) -> None:
        overlay.duration[fusable] *= time[fusable]

    return together(change, *map(host_time_times, (own, others), host_time))


@fix
class CompileOnce:
    id = "compile-once"
    explanation = """
When it applies
    In at least half of the steady steps, and at least two, a compiler runs for more than 1 ms of a step, counting all
    its phases together.

What is changed in the replay
    The compiler's CPU time is gone, and so is what it launches itself to try kernels. At most, all other CPU work of
    more than 250 us is gone too: newly compiled code being loaded on its first run.

What makes it more or less
    How much of the rest of a step is such a first run. A program compiled for all sizes is a little slower than one
    for a single size.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        compiling = compiling_ns(analysis)
        if not compiling.any():
            return
        around = surroundings_of(analysis)
        tried = around.inside(is_compiling)
        gone = together(without_calls(replay, tried), less_host_time(compiling > 0, compiling))
        taken = per_step(replay, float(compiling.sum() + replay.host.cost[tried].sum()))
        yield Proposal(
            title=f"Compile once: the compiler runs again in most steps, {duration(taken)} {replay.in_step}",
            categories=(Category.RECOMPILATION, Category.HOST_BOUND),
            culprit="torch.compile",
            remedy=COMPILE_ONCE,
            expected=gone,
            high=together(gone, less_host_time(compiling >= 0, own_work(replay, around))),
            depends_on="how much of the rest of a step is the first run of newly compiled code",
        )


_CONDITION = "aten::is_nonzero"
# of the time up to the read-back, and up to the first kernel of the graph behind it and of its backward pass: leaving
# and entering a graph (docs/predictions.md)
LEFT_OF_BREAKS, LEFT_OF_BREAKS_AT_LEAST = 0.25, 0.5
LEFT_OF_LATER = 0.5  # of the time up to the first kernel of graphs that no read-back is known to keep apart

_CODE = """x = block(x)
bad |= ~torch.isfinite(x).all()      # stays on the GPU, and in the graph
# not: if not torch.isfinite(x).all(): raise ...
...
if step % 100 == 0 and bad.item():   # outside of what is compiled
    raise FloatingPointError("activations are not finite")"""


@fix
class JoinCompiledGraphs:
    id = "join-compiled-graphs"
    explanation = """
When it applies
    At least twice in a step, a compiled graph of torch.compile ends with a value that is read back, and another one
    follows at once: the program looks at a value, so the compiler can't go on. Without training, only conditions on
    tensors count, and values that are read inside of what is compiled: a loop that chooses the next token reads values
    between its graphs, too.

What is changed in the replay
    The read-backs and their waits are gone, and three quarters of the time between the graphs: half of it at least,
    all of it at most. So is that before the backward pass of a graph behind a read-back. Of the time before other
    graphs that follow in a step, and before their backward passes, half is gone, nothing at least, all of it at most.

What makes it more or less
    What the compiler fuses across the joint, whether something else breaks the graph in the same place
    (TORCH_LOGS=graph_breaks tells), and whether the program compiles its layers one by one.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = graph_breaks(analysis)
        if not nodes.any():
            return
        waits = nodes & (replay.waits.target >= 0)
        begins = nodes & ~np.append(False, nodes[:-1])
        often = per_step(replay, float(np.count_nonzero(begins)))
        around = surroundings_of(analysis)
        condition = bool((around.inside(_CONDITION.__eq__) & nodes).any())
        name = _CONDITION if condition else "aten::item"
        place = place_of(analysis, waits.astype(np.float64))
        behind, later = entering_graphs_behind(analysis)
        behind = behind | beside_graph_breaks(analysis)
        yield Proposal(
            title=(
                f"Join the compiled graphs: {often:,.0f} graph breaks with a read-back ({name}"
                f"{f' in {place}' if place else ''}) {replay.in_step}"
            ),
            categories=(Category.SYNCHRONIZATION, Category.LAUNCH_BOUND, Category.GRAPH_BREAK),
            culprit=name,
            problem="Read-backs break the compiled graph",
            remedy=pytorch_remedy(
                "Do not look at values inside of what is compiled: no if on a tensor, no .item(), no assert. Use "
                "torch.where, or collect what is to be checked and read it once, behind the step.",
                "Find all places: TORCH_LOGS=graph_breaks, or torch.compile(model, fullgraph=True), which fails at "
                "the first one.",
                code=_CODE,
            ),
            expected=_joined(replay, nodes, (behind, LEFT_OF_BREAKS), (later, LEFT_OF_LATER)),
            low=_joined(replay, nodes, (behind, LEFT_OF_BREAKS_AT_LEAST)),
            high=_joined(replay, nodes, (behind | later, 0.0)),
            depends_on="what the compiler fuses across the joint",
        )


def _joined(replay: Replay, nodes: BOOL, *edges: tuple[BOOL, float]) -> Change:
    """Nothing is read, and of the time before some calls such a part is left."""

    def closer(overlay: Overlay) -> None:
        for calls, left in edges:
            overlay.gap[calls] *= left

    return together(closer, without_calls(replay, nodes, 0.0))


MIN_DISPATCHES = 10  # in a step: fewer are a program that is compiled already
DISPATCH_NS = 100_000.0  # one call of a compiled step: docs/predictions.md
# between two dispatches: as long as this Python may do something that cannot be compiled
LONG_NS = 1_000_000.0

_STAYING = (Family.GEMM, Family.CONVOLUTION, Family.ATTENTION, Family.SORT)


@fix
class CompileStepWithJit:
    id = "compile-step-with-jit"
    explanation = """
When it applies
    JAX dispatches at least 10 compiled functions in a step, most of them single operations.

What is changed in the replay
    Each run of dispatches between two waits becomes one call: the host time between and inside the others is gone.
    The kernels stay as they are, and so do waits and the work of data loaders. At best XLA fuses all kernels that
    only move memory into the others.

What makes it more or less
    How much XLA fuses. Python code between two operations that takes a millisecond or more may not be compilable:
    then it stays.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        count = _dispatches_per_step(analysis)
        if count < MIN_DISPATCHES:
            return
        host, around = replay.host, surroundings_of(analysis)
        dispatched = around.inside(_is_dispatch)
        waits = replay.waits.target >= 0
        edge = np.append(True, (np.diff(host.step) != 0) | (np.diff(host.thread) != 0) | waits[:-1])
        stretch = np.cumsum(edge)
        inside = np.bincount(stretch[dispatched], minlength=int(stretch.max(initial=0)) + 1)[stretch] > 0
        inside &= ~waits
        first = inside & np.append(True, np.diff(stretch) != 0)
        loading = np.minimum(around.input_ns, host.gap)
        foreign = np.where(around.silent_ns >= LONG_NS, np.maximum(around.silent_ns, loading), loading)

        yield Proposal(
            title=f"Compile the step with jax.jit: {count:,.0f} functions are dispatched one by one in it",
            categories=(Category.LAUNCH_BOUND,),
            culprit="operations that JAX dispatches one by one",
            remedy=JIT_THE_STEP,
            expected=_one_call(inside, first, loading),
            high=together(_one_call(inside, first, loading), _fused(analysis, replay, inside)),
            low=_one_call(inside, first, foreign) if (foreign > loading).any() else None,
            depends_on="how much of the Python code between the operations can be compiled too",
        )


def _is_dispatch(name: str) -> bool:
    """JAX's own range around each call of a compiled function; an operation outside of ``jit`` is one, too."""
    return name.startswith("PjitFunction(")


def _dispatches_per_step(analysis: Analysis) -> float:
    """Calls of compiled functions in the window, those inside others left out, for each step of one rank."""
    trace, (t0, t1) = analysis.trace, analysis.window
    events = np.flatnonzero(of_kinds(trace.events.kind, EventKind.REGION, EventKind.CPU_OP))
    events = events[named(trace, events, _is_dispatch)]
    events = events[(trace.events.start[events] >= t0) & (trace.events.start[events] < t1)]
    count = 0
    for lane in distinct_values(trace.events.lane[events]).tolist():
        mine = events[trace.events.lane[events] == lane]
        mine = mine[np.lexsort((-trace.events.end[mine], trace.events.start[mine]))]
        before = np.append(t0, np.maximum.accumulate(trace.events.end[mine])[:-1])
        count += int(np.count_nonzero(trace.events.start[mine] >= before))
    return count / max(analysis.steps_in_window, 1)


def _one_call(inside: BOOL, first: BOOL, kept: F64) -> Change:
    def change(overlay: Overlay) -> None:
        overlay.gap[inside] = np.minimum(overlay.gap, kept)[inside]
        overlay.cost[inside] = np.where(first, DISPATCH_NS, 0.0)[inside]

    return change


def _fused(analysis: Analysis, replay: Replay, inside: BOOL) -> Change:
    device = replay.device
    family = analysis.family_of_string[analysis.trace.events.name[device.event]]
    return without_operations(inside[device.launch] & ~of_kinds(family, *_STAYING) & (device.meeting < 0))
