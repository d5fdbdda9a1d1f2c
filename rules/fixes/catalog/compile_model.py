"""The model is compiled: neighbouring kernels that only move memory become one, and there are fewer launches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.arrays import BOOL, F64
from parsers.model.events import of_kinds
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.memory_bound import POINTWISE, memory_bound
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import Audience, program_of
from rules.analysis.names.software import software_of
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.catalog.align_shapes import ALIGNED_AT_LEAST, ALIGNED_AT_MOST, unaligned_products
from rules.fixes.changes import durations_times, of_nodes, together
from rules.fixes.forms.shared_heads import shared_heads
from rules.fixes.forms.shifted_spectra import shifted_spectra
from rules.fixes.forms.written import calls_of
from rules.fixes.loops.item_loops import in_loops
from rules.fixes.optimizers import optimizer_calls
from rules.kernels.spread_out import spread_out
from rules.losses.owners import owners_of
from rules.remedies.kernels import fused_kernels
from rules.replay.loops import loops_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.terms.shares import MAJORITY

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
    """Elementwise kernels, normalisations and reductions that a compiler would join."""

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
        if (family == Family.TRITON).any() or program_of(trace) is Audience.JAX:
            return
        found = [memory_bound(analysis, each) for each in analysis.active_devices]
        chained = np.isin(device.event, np.concatenate([each.events for each in found]))
        whole = np.bincount(device.member_of, minlength=len(device)) == 1
        fusable = chained & whole & ~named(trace, device.event, _is_kept) & ~_for_libraries(analysis, replay)
        share = float(device.duration[fusable].sum() / max(device.duration[device.meeting < 0].sum(), 1.0))
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
        yield Proposal(
            title=f"Compile the model: {percent(share)} of the GPU's time only moves memory{mostly}",
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
            depends_on="how much of the model compiles without graph breaks",
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
        usual[inside] = np.median(device.duration[inside]) / loop.body if inside.any() else 0.0
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
    nodes = np.zeros(len(replay.host), bool)
    nodes[replay.device.launch[fusable]] = True
    short = _short(replay, analysis) & ~_apart(replay, analysis)
    own, others = short & nodes, short & ~nodes & of_kinds(replay.host.call, *_LAUNCHES)

    def change(overlay: Overlay) -> None:
        overlay.duration[fusable] *= time[fusable]
        for mine, factor in zip((own, others), host_time, strict=True):
            overlay.gap[mine] *= factor
            overlay.cost[mine] *= factor

    return change
