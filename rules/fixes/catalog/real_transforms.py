"""Fourier transforms of real numbers that compute, and keep, both halves of a spectrum that mirror each other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import F64, I64, Attribute, EventKind, Trace
from parsers.model.arrays import distinct_values, per_value
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, together, without_operations
from rules.fixes.forms.written import called_in_order, calls_of, costly_calls
from rules.kernels.operator_work import inputs_of
from rules.kernels.recorded_shapes import elements
from rules.remedies.costly_forms import REAL_TRANSFORMS
from rules.replay.origins import called_operators
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

# of a spectrum, and of what a transform takes, where its mirrored half is neither computed nor kept
LEFT = 0.5
NEAR = 2  # operators between a transform back and taking its real part: shifting or cutting it
_FORWARD = aten("fft_fft fft_fft2 fft_fftn")
_BACK = aten("fft_ifft fft_ifft2 fft_ifftn")
_REAL = "aten::real"
_CONVERTS = "aten::_to_copy"  # in a transform of several dimensions, which converts what is no complex number
_FILLS = "aten::_fft_r2c"  # in one along a single dimension, which computes one half and fills in the other
_COMPLEX = "c10::complex"


@dataclass(frozen=True, slots=True, eq=False)
class WholeSpectra:
    """The operators that work on whole spectra of real numbers, by what they do."""

    forward: I64
    back: I64
    taking: I64  # the real part of what a transform back gives
    between: I64


@fix
class TransformRealNumbers:
    id = "transform-real-numbers"
    explanation = f"""
When it applies
    torch.fft.fft, fft2 or fftn is given real numbers, which it converts to complex ones, or of which it computes half
    of the spectrum and fills in the other. If the program transforms back, behind the next ifft, ifft2 or ifftn at
    most {NEAR} operators come before its real part is taken. All of that, what works on complex tensors of at least
    half that size in between, and the gradients take at least 5 % of the GPU's time.

What is changed in the replay
    Converting, filling in and taking the real part are gone. Half of the transforms' time remains, but for those that
    compute one half already, and half of what works on the spectrum, with its gradients. The gradient of a transform of
    real numbers is one of complex ones again, and stays.

What makes it more or less
    Whether what works on the spectrum needs both halves: at least, it stays as it is. What only filled in the other
    half, or doubled this one, goes.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = whole_spectra(analysis)
        transforms = np.concatenate((found.forward, found.back, found.taking))
        _, share = costly_calls(analysis, replay, np.append(transforms, found.between))
        if not len(found.forward) or not share:
            return
        launch = replay.device.launch
        forward, back, taking, between = (
            calls_of(analysis, each)[launch]
            for each in (found.forward, found.back, found.taking, found.between)
        )
        function = autograd_functions(analysis)
        backward = function >= 0
        converting, filling = (surroundings_of(analysis).inside(each.__eq__) for each in (_CONVERTS, _FILLS))
        converting[backward] = named(
            analysis.trace, function[backward], lambda name: "ToCopyBackward" in name
        )
        fills = named(analysis.trace, replay.device.event, lambda name: "fft_conjugate_copy" in name)
        gone = taking | (forward & (converting[launch] | fills))
        halved = back | (forward & ~(filling | backward)[launch])
        dropped = without_operations(gone)
        yield Proposal(
            title=f"Transform real numbers as such: {percent(share)} of the GPU's time works on spectra of which one "
            "half mirrors the other",
            categories=(Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS, Category.GPU_BOUND),
            culprit=analysis.trace.name(int(found.forward[0])),
            problem="Real numbers are transformed as complex ones",
            remedy=REAL_TRANSFORMS,
            expected=together(dropped, durations_times((halved | between) & ~gone, LEFT)),
            low=together(dropped, durations_times(halved & ~gone, LEFT)),
            high=together(dropped, durations_times((halved | between | forward) & ~gone, LEFT)),
            depends_on="how much of the work on the spectrum needs only one half",
        )


def whole_spectra(analysis: Analysis) -> WholeSpectra:
    """Transforms of real numbers, and what comes between them and the way back, if that gives real numbers again."""
    trace = analysis.trace
    parts: list[list[I64]] = [[np.empty(0, np.int64)] for _ in range(4)]
    sizes = [np.empty(0)]
    for called in called_in_order(analysis):
        forward = np.flatnonzero(named(trace, called, _FORWARD.__contains__))
        forward = forward[_are_given_real(analysis, called[forward])]
        if not len(forward):
            continue
        back = np.flatnonzero(named(trace, called, _BACK.__contains__))
        real = named(trace, called, _REAL.__eq__)
        size = _complex_elements(trace, called)
        takes = np.full(len(back), -1)
        for far in range(NEAR + 1, 0, -1):
            behind = np.minimum(back + far, len(called) - 1)
            takes = np.where(real[behind], behind, takes)
        following = np.searchsorted(back, forward)
        has_back = following < len(back)
        behind = np.minimum(forward + 1, len(called) - 1)
        kept = ~real[behind]  # the real part of a spectrum itself
        kept[has_back] &= takes[following[has_back]] >= 0
        forward, following, has_back = forward[kept], following[kept], has_back[kept]
        whole = np.zeros(len(called), bool)
        for begin, turn, known in zip(forward.tolist(), following.tolist(), has_back.tolist(), strict=True):
            if known:
                whole[begin + 1 : back[turn]] |= size[begin + 1 : back[turn]] >= max(
                    LEFT * size[back[turn]], 1.0
                )
        used = np.unique(following[has_back])
        whole[forward] = whole[back[used]] = False
        sizes.append(size[back[used]])
        for part, mine in zip(parts, (forward, back[used], takes[used], whole), strict=True):
            part.append(called[mine])
    parts[3].append(_of_gradients(analysis, np.concatenate(sizes)))
    return WholeSpectra(*map(np.concatenate, parts))


def _of_gradients(analysis: Analysis, sizes: F64) -> I64:
    """Operators of the backward pass on complex tensors of such sizes that belong to no operator of the forward pass.

    Assigning to a part of a spectrum has such.
    """
    called = called_operators(analysis)
    own = (
        (autograd_functions(analysis) >= 0)
        & (called == surroundings_of(analysis).whole_operator)
        & (called >= 0)
    )
    operators = distinct_values(called[own])
    size = _complex_elements(analysis.trace, operators)
    size = np.where(size > 0, size, -1.0)[:, None]
    return operators[((size >= LEFT * sizes) & (size <= sizes)).any(axis=1)]


def _are_given_real(analysis: Analysis, transforms: I64) -> np.ndarray:
    """Which transforms convert what they are given, or have code for real numbers inside of them."""
    trace, found = analysis.trace, np.zeros(len(transforms), bool)
    for activity, mine in analysis.threads.by_thread(transforms):
        operators = activity.of_kind(EventKind.CPU_OP)
        converts = trace.events.start[operators[named(trace, operators, (_CONVERTS, _FILLS).__contains__)]]
        begin, end = trace.events.spans(transforms[mine])
        converts = np.sort(converts)
        found[mine] = np.searchsorted(converts, end) > np.searchsorted(converts, begin)
    return found


def _complex_elements(trace: Trace, operators: I64) -> F64:
    """How many elements the largest complex tensor has that each operator is given; 0 for none."""
    dims, types = (
        trace.attribute(each, operators, -1) for each in (Attribute.INPUT_DIMS, Attribute.INPUT_TYPES)
    )

    def largest(row: list[int]) -> float:
        if min(row) < 0:
            return 0.0
        inputs = inputs_of(trace.strings[row[0]], trace.strings[row[1]], 1)
        if inputs is None:
            return 0.0
        given = zip(inputs.shapes, inputs.types, strict=False)
        return max(
            (float(elements(shape)) for shape, kind in given if str(kind).startswith(_COMPLEX)), default=0.0
        )

    return per_value(np.column_stack((dims, types)), largest, np.float64)
