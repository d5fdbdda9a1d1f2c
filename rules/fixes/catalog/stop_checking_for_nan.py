"""The backward pass checks no gradient for NaN, and the forward pass notes down no stacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import BOOL, derived
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import together, without_calls, without_waiting
from rules.remedies.host_work import NO_ANOMALY_DETECTION
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

MIN_FUNCTIONS = 20  # of autograd that check in a step
MIN_SHARE = 0.5  # of all that launch something
STACK_NS = 40_000.0  # noting down one stack of ten frames
MAX_OF_GAP = 0.8  # of the time before a call can be the noting down

_CHECKS = ("aten::isnan", "aten::_is_any_true", "aten::is_nonzero", "aten::item", "aten::_local_scalar_dense")


@fix
class StopCheckingForNan:
    """Anomaly detection of autograd."""

    id: ClassVar[str] = "stop-checking-for-nan"
    explanation: ClassVar[str] = """
When it applies
    At least 20 functions of the backward pass in a step, and half of them, check their result for NaN.

What is changed in the replay
    The checks are gone, with their kernels and the waits for the answers. At most, the forward pass also saves 40 us
    for each function, in which it records a stack.

What makes it more or less
    How deep the stacks are that the forward pass records, which no recording shows.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        checks = nan_checks(analysis)
        if not checks.any():
            return
        function = autograd_functions(analysis)
        functions = len(np.unique(function[function >= 0]))
        answers = int(np.count_nonzero(checks & (replay.waits.target >= 0)) / max(replay.steps, 1))
        gone = together(without_calls(replay, checks), without_waiting(checks))
        forward = function < 0
        saved = STACK_NS * functions / max(int(np.count_nonzero(forward)), 1)

        def without_stacks(overlay: Overlay) -> None:
            overlay.gap[forward] -= np.minimum(saved, MAX_OF_GAP * overlay.gap[forward])

        yield Proposal(
            title=(
                f"Turn anomaly detection off: the backward pass checks for NaN {answers:,} times {replay.in_step}"
            ),
            categories=(Category.SYNCHRONIZATION, Category.LAUNCH_BOUND, Category.HOST_BOUND),
            culprit="anomaly detection",
            problem="Anomaly detection is on",
            remedy=NO_ANOMALY_DETECTION.after(
                "Anomaly detection waits for the GPU after every function of the backward pass, and records a "
                "stack for every function of the forward pass.",
            ),
            expected=gone,
            high=together(gone, without_stacks),
            depends_on="how much of the CPU's time goes into recording stacks in the forward pass",
        )


@derived
def nan_checks(analysis: Analysis) -> BOOL:
    """The calls of autograd's questions whether a gradient has a NaN in it; none where only some functions ask."""
    around, function = surroundings_of(analysis), autograd_functions(analysis)
    asks = (function >= 0) & around.inside(_CHECKS[0].__eq__)
    asking = len(np.unique(function[asks]))
    steps = around.replay.steps * len(around.replay.spans)
    if asking < MIN_FUNCTIONS * steps or asking < MIN_SHARE * len(np.unique(function[function >= 0])):
        return np.zeros(len(function), bool)
    return np.asarray(np.isin(function, function[asks]) & around.inside(_CHECKS.__contains__))
