"""The same work by faster kernels: other shapes, precision and layouts, fused attention, a usual part of the roof."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, derived
from parsers.model.arrays import in_both, median_of, per_value
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.memory_bound import memory_bound
from rules.analysis.names.families import Family
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import (
    durations_times,
    faster,
    less_host_time,
    of_nodes,
    per_step,
    share_of,
    share_of_own_work,
    together,
    total,
    without_calls,
    without_waiting,
)
from rules.fixes.forms.tried_algorithms import tried_algorithms
from rules.kernels.operator_roofs import MEMORY_ROOF
from rules.kernels.recorded_shapes import inputs_in
from rules.kernels.slow_operators import NORMAL_SHARE, UNALIGNED, slow_operators
from rules.remedies.costly_forms import ROUND_LENGTHS
from rules.remedies.kernels import (
    CHANNELS_LAST,
    FIXED_ALGORITHMS,
    FUSED_ATTENTION,
    PAD_SHAPES,
    faster_operator,
)
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of
from rules.wording.words import shortened

IMAGES = (4, 5)  # dimensions of a batch of pictures, or of volumes
_CONVOLUTIONS = regex(r"aten::(_?convolution|conv[23]d|conv_transpose[23]d|convolution_backward)$")


@derived
def turned_images(analysis: Analysis) -> BOOL:
    """The host nodes that launch copies of images, which convolutions make to have them in their own order.

    One inside a convolution alone may be of a part of the channels. So images of the same sides must also be copied
    outside of one, in the forward pass: for a layer of another order, or by a call of contiguous(). Those count, and
    all that convolutions copy in that program.
    """
    around = surroundings_of(analysis)
    copy = around.around("aten::copy_".__eq__)
    ordered = (copy >= 0) & around.inside("aten::contiguous".__eq__)
    nodes = np.flatnonzero(ordered)
    found = np.zeros(len(replay_of(analysis).host), bool)
    if not len(nodes):
        return found
    sides = _sides(analysis, copy[nodes])
    convolves = around.inside(_CONVOLUTIONS.match)[nodes]
    forward = (autograd_functions(analysis) < 0)[nodes]
    known = sides >= 0
    turned = in_both(sides[known & forward & convolves], sides[known & forward & ~convolves])
    if len(turned):
        found[nodes[known & convolves | forward & np.isin(sides, turned)]] = True
    return found


def _sides(analysis: Analysis, copies: I64) -> I64:
    """A number for each copy: the same for images of the same sides in any order; -1 for what is no image."""
    trace = analysis.trace
    seen: dict[tuple[int, ...], int] = {}

    def number(dims: int) -> int:
        shape: list[int] = next(iter(inputs_in(trace.strings[dims])), []) if dims >= 0 else []
        return seen.setdefault(tuple(sorted(shape)), len(seen)) if len(shape) in IMAGES else -1

    return np.asarray(per_value(trace.attribute(Attribute.INPUT_DIMS, copies, -1), number))


MIN_UNALIGNED = 0.03  # of the GPU's time
# Unaligned loads move 2 or 4 bytes for each instruction instead of 16, and libraries have their newest kernels for
# aligned data only: a GPT-2 head of 50257 words takes 5 times as long as one of 50304 on an H100 (NVIDIA's deep
# learning performance guide shows 2 to 4 times on A100).
ALIGNED_TIME, ALIGNED_AT_LEAST, ALIGNED_AT_MOST = 0.3, 0.6, 0.15


@fix
class AlignShapes:
    id = "align-shapes"
    explanation = """
When it applies
    16-bit matrix products run kernels for unaligned data, judging by their names.

What is changed in the replay
    They take 0.3 of their time.

What makes it more or less
    Small products gain the least; with the newest kernels the remaining share may be a sixth.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        awkward = unaligned_products(analysis, replay)
        share = share_of_own_work(replay, awkward)
        if share < MIN_UNALIGNED:
            return
        longest = int(np.flatnonzero(awkward)[device.duration[awkward].argmax()])
        yield Proposal(
            title=f"Pad matrix dimensions: {percent(share)} of the GPU's time is kernels for unaligned data",
            categories=(Category.GEMM_SHAPE,),
            culprit=shortened(trace.name(int(device.event[longest])), 120),
            remedy=PAD_SHAPES.and_then(CHANNELS_LAST.advice[0]),
            expected=durations_times(awkward, ALIGNED_TIME),
            low=durations_times(awkward, ALIGNED_AT_LEAST),
            high=durations_times(awkward, ALIGNED_AT_MOST),
            depends_on="which dimensions can be padded",
        )


def unaligned_products(analysis: Analysis, replay: Replay) -> BOOL:
    """Which operations are products or convolutions in 16 bits by kernels for unaligned data."""
    trace, device = analysis.trace, replay.device
    names = trace.events.name[device.event]
    product = of_kinds(analysis.family_of_string[names], Family.GEMM, Family.CONVOLUTION)
    half = np.array([each.dtype in ("fp16", "bf16") for each in analysis.classes], bool)[names]
    by_name = named(trace, device.event, UNALIGNED.search)
    return np.asarray(product & half & by_name)


# times as fast as Bluestein's algorithm, which does two transforms of at least twice the length and multiplies before,
# between and behind them: 4.6 times the operations, of which a kernel that waits for memory notices half
DIRECT, DIRECT_AT_LEAST, DIRECT_AT_MOST = 3.0, 2.0, 4.6


@fix
class PadTransforms:
    id = "pad-transforms"
    explanation = """
When it applies
    Kernels of Bluestein's algorithm, by which libraries transform lengths with large prime factors, take at least 5 %
    of the GPU's time.

What is changed in the replay
    They become three times as fast. The algorithm does two transforms of at least twice the length.

What makes it more or less
    Whether the memory or the arithmetic limits them: 2 to 4.6 times. By how much the next good length is longer.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, members = analysis.trace, replay.device.members
        roundabout = named(trace, members, lambda name: "bluestein" in name.lower())
        share = total(replay, roundabout) / max(total(replay, np.ones(len(members), bool)), 1.0)
        if share < MIN_GPU_SHARE:
            return
        yield Proposal(
            title=(
                f"Pad Fourier transforms: {percent(share)} of the GPU's time is Bluestein's algorithm, for lengths "
                "with large prime factors"
            ),
            categories=(Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit=trace.name(int(members[np.flatnonzero(roundabout)[0]])),
            problem="Fourier transforms have lengths with large prime factors",
            remedy=ROUND_LENGTHS,
            expected=faster(replay, roundabout, DIRECT),
            low=faster(replay, roundabout, DIRECT_AT_LEAST),
            high=faster(replay, roundabout, DIRECT_AT_MOST),
            depends_on="whether memory or arithmetic limits the transforms",
        )


MIN_CONVERTING = 0.01  # of the GPU's time converts layouts
CHANNELS_LAST_NORM = 0.7  # of a batch normalisation's time: docs/predictions.md
_SPATIAL = ("upsample", "interpolate", "pool", "grid_sample")
SPATIAL_TIME = 0.7  # of interpolation and pooling: neighbouring channels are read together


@fix
class UseChannelsLast:
    id = "use-channels-last"
    switches = ("channels-last",)
    explanation = """
When it applies
    Kernels convert tensors between the two layouts of images. So do copies that contiguous() makes inside convolutions,
    of tensors with four or five dimensions, if others of the same sides are made outside of them: there a normalisation
    or the program wants the other layout. Shapes must be recorded.

What is changed in the replay
    The conversions are gone. Batch normalisation, interpolation and pooling take 0.7 of their time, except in kernels
    that are for this layout already.

What makes it more or less
    Layers without a version for this layout convert back and forth. Interpolation may gain much more.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        family = analysis.family_of_string[trace.events.name[device.event]]
        layout = (family == Family.LAYOUT) | turned_images(analysis)[device.launch]
        share = share_of_own_work(replay, layout)
        compiled = bool((family == Family.TRITON).any())
        if share < MIN_CONVERTING or compiled:
            return
        norms = named(trace, device.event, lambda name: "batch_norm" in name) & (
            family == Family.NORMALISATION
        )
        spatial = named(trace, device.event, lambda name: any(word in name for word in _SPATIAL)) & ~norms
        slower = ~named(trace, device.event, lambda name: "nhwc" in name or "channels_last" in name)
        only_layout = of_nodes(replay, layout) & ~of_nodes(replay, ~layout)
        yield Proposal(
            title=f"Keep images in channels_last: {percent(share)} of the GPU's time only converts their layout",
            categories=(Category.LAYOUT_CONVERSION,),
            culprit=trace.name(int(device.event[np.flatnonzero(layout)[0]])),
            remedy=CHANNELS_LAST,
            expected=together(
                without_calls(replay, only_layout, 0.0),
                durations_times(layout, 0.0),
                durations_times(norms & slower, CHANNELS_LAST_NORM),
                durations_times(spatial & slower, SPATIAL_TIME),
            ),
        )


# In channels_last the gradients of enlargements take a twelfth to a third of their time, batch normalisation a fifth to
# a half, pooling all of it or four fifths: the operators of the explanation of slow-operators, on one H100.
_GAIN_BY_LAYOUT = regex(r"upsample|batch_norm")
LEFT, LEFT_OF_OTHERS = 0.4, 0.7
MIN_SLOW = 0.02  # of the GPU's time, by operators of one name
# of the roof: no kernel fits what is asked of it, as running sums over rows of a few numbers
MAX_FAR_BELOW = 0.01


@fix
class UseFasterKernels:
    id = "use-faster-kernels"
    switches = ("cudnn-benchmark", "sdpa-backend")
    explanation = """
When it applies
    An operator reaches less than a tenth of what its shapes and types allow: see the rule slow-operators.

What is changed in the replay
    Enlargements of images and batch normalisation take 0.4 of their time, as they do in another layout; other operators
    0.7. Operators that reach less than a hundredth take the geometric mean of that and half of their roof.

What makes it more or less
    Whether there is a faster kernel for it: if not, nothing is gained; at most it reaches half of its roof, as most
    operators do.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for the operators of one name."""
        device = replay.device
        found = [slow_operators(analysis, each) for each in analysis.active_devices]
        rows = [pair for each in found for pair in zip(each.rows, each.kernels, strict=True)]
        whole = max(float(device.duration[device.meeting < 0].sum()), 1.0)
        for name in dict.fromkeys(row.name for row, _ in rows):
            best = np.ones(len(device))
            share, roof = 0.0, ""
            for row, kernels in rows:
                if row.name == name:
                    best[np.isin(device.event, kernels)] = row.share / NORMAL_SHARE
                    share, roof = (share, roof) if share else (row.share, row.roof)
            slow = best < 1.0
            took = float(device.duration[slow].sum())
            if took < MIN_SLOW * whole:
                continue
            left = LEFT if _GAIN_BY_LAYOUT.search(name) else LEFT_OF_OTHERS
            best = np.where(slow, np.minimum(best, left), 1.0)
            likely = np.where(
                best < MAX_FAR_BELOW / NORMAL_SHARE, np.sqrt(left * best), np.where(slow, left, 1.0)
            )
            what = "the memory's peak" if roof == MEMORY_ROOF else f"the peak of {roof}"
            yield Proposal(
                key=name,
                title=(
                    f"Speed up {name}: it reaches {percent(share)} of {what}, {duration(per_step(replay, took))} "
                    f"{replay.in_step}"
                ),
                categories=(Category.SLOW_OPERATOR,),
                culprit=name,
                remedy=faster_operator(name),
                expected=durations_times(slow, likely),
                low=durations_times(slow, 1.0),
                high=durations_times(slow, best),
                depends_on="whether there is a faster kernel for it in another layout, type or mode",
            )


# of what preparing one of the algorithms takes: one is prepared where nothing is tried, none where shapes are padded
PREPARED = 0.5


@fix
class KeepAlgorithms:
    id = "keep-algorithms"
    explanation = """
When it applies
    In two or more steps, convolutions run two or more algorithms one after another, each timed with an event that the
    CPU waits for: with torch.backends.cudnn.benchmark, each new shape is tried like that once. Operators must be
    recorded.

What is changed in the replay
    Only the last run remains of each, that of the chosen algorithm; of a convolution's gradients the first one as well.
    Of the time before the first run, in which all algorithms are prepared, half of one algorithm's part remains. Where
    memory is freed inside of these convolutions, all calls that free or allocate it in these steps are gone, too:
    behind its trials, PyTorch empties the cache of memory.

What makes it more or less
    A library that chooses by a rule still prepares one algorithm for each new shape; shapes padded to a few need
    nothing: at most, nothing is prepared. Once no new shapes come, nothing is tried any more.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = tried_algorithms(analysis)
        if not found.tried:
            return
        often = per_step(replay, len(found.operators))
        tried = found.tried / len(found.operators)
        left = found.before_ns - found.prepared_ns * PREPARED / tried
        gone = together(without_calls(replay, found.nodes, gaps=0.0), without_waiting(found.allocates))
        yield Proposal(
            title=(
                f"Stop trying algorithms for each new shape: {tried:.0f} for a convolution, "
                f"{often * tried:,.0f} {replay.in_step}"
            ),
            categories=(
                Category.RECOMPILATION,
                Category.HOST_BOUND,
                Category.SYNCHRONIZATION,
                *((Category.ALLOCATOR,) if found.allocates.any() else ()),
            ),
            culprit=analysis.trace.name(int(found.operators[0])),
            problem="Convolutions try all algorithms for each new shape",
            remedy=FIXED_ALGORITHMS,
            expected=together(gone, less_host_time(found.before_ns > 0, left)),
            high=together(gone, less_host_time(found.before_ns > 0, found.before_ns)),
            depends_on="whether the shapes can be padded to a few, for which nothing is prepared",
        )


MIN_ATTENTION = 0.03  # of the GPU's time
LAUNCHES_LEFT = 0.1  # of the host's time for what stands between the products
PADDED_TIME = 0.5  # of products for unaligned data: docs/predictions.md
NEAR = 4  # places on a stream: the backward pass has two products on either side of the scores


@fix
class FuseAttention:
    id = "fuse-attention"
    switches = ("sdpa-backend",)
    explanation = """
When it applies
    A softmax and kernels that only move the scores lie between two matrix products.

What is changed in the replay
    Everything between the two products is gone, on the GPU and nearly all of it on the host. The products stay; those
    next to the scores that run as kernels for unaligned data take half their time, because a fused kernel pads.

What makes it more or less
    The fused kernel also computes the products, and faster; a mask that it does not support makes it slower.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        events = [memory_bound(analysis, device).attention for device in analysis.active_devices]
        scores = np.isin(replay.device.event, np.concatenate(events)) if events else np.zeros(0, bool)
        share = share_of(replay, scores)
        if share < MIN_ATTENTION:
            return
        nodes = of_nodes(replay, scores)
        # what passes before a launch for longer than usual is something else, such as the next batch being made ready
        usual = float(median_of(replay.host.gap[nodes])) if nodes.any() else 0.0
        padded = unaligned_products(analysis, replay) & _beside(replay, scores)

        def fused(overlay: Overlay) -> None:
            overlay.duration[scores] = 0.0
            overlay.duration[padded] *= PADDED_TIME
            overlay.gap[nodes] -= (1.0 - LAUNCHES_LEFT) * np.minimum(overlay.gap[nodes], usual)
            overlay.cost[nodes] *= LAUNCHES_LEFT

        yield Proposal(
            title=f"Use fused attention: {percent(share)} of the GPU's time writes and reads attention scores",
            categories=(Category.MEMORY_BOUND_KERNELS,),
            culprit="attention scores",
            remedy=FUSED_ATTENTION,
            expected=fused,
        )


def _beside(replay: Replay, scores: BOOL) -> BOOL:
    """Which operations lie at most ``NEAR`` places before or after one of these on their stream."""
    found = np.zeros(len(scores), bool)
    for apart in range(1, NEAR + 1):
        same = replay.device.stream[apart:] == replay.device.stream[:-apart]
        found[:-apart] |= scores[apart:] & same
        found[apart:] |= scores[:-apart] & same
    return found
