"""Where the time of a step goes on one GPU without the recorder: the basis of every share, promise and bar."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from parsers.model import derived
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, length
from rules.analysis.idle.causes import Budget, Cause
from rules.fixes.removal import Removal
from rules.replay.replay import replay_of

# What the recorder takes ends in these parts of a GPU's time, the first of them first.
_OF_HOST = (Cause.LAUNCH, Cause.INPUT, Cause.HOST, Cause.SYNCHRONIZATION, Cause.ALLOCATOR, Cause.UNKNOWN)
_COMMUNICATION = "communication"
# of a part that the recorder may explain as a whole: what it costs is known to a factor of 1.2 (docs/predictions.md)
MIN_LEFT = 0.2
# of a step: that much too long, with the least that is left of each wait, the step may be as long as that says
KNOWN_WITHIN = 0.25
# of a recorded step: where the recorder takes less of it, everything is told of the step as recorded
MIN_RECORDER_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class StepTime:
    """Parts of a typical step of one device, ns, under the keys of ``budget_json`` and of ``Cause``.

    ``mean`` add up to ``mean_ns``, ``recorded`` to ``recorded_ns`` and ``parts`` to ``length_ns``, which is the step as
    users run it and what every fix is replayed against. What slow steps took longer by chance, and then what the
    recorder took, is what the CPU did: both leave the GPU's own work as it is.
    """

    device: int
    mean_ns: float  # the mean steady step as recorded
    is_mean: bool  # whether ``recorded_ns`` reads the same
    recorded_ns: float
    length_ns: float
    mean: Mapping[str, float]
    recorded: Mapping[str, float]
    parts: Mapping[str, float]

    @property
    def recorder_ns(self) -> float:
        return self.recorded_ns - self.length_ns

    def scale(self, key: str) -> float:
        """By which factor the share of a part changes from the mean step to one without the recorder."""
        before = self.mean.get(key, 0.0)
        if before <= 0 or self.length_ns <= 0:
            return 1.0
        return (self.parts[key] / before) * (self.mean_ns / self.length_ns)

    @property
    def recorder_share(self) -> float:
        """The part of the recorded step that is the recorder's."""
        return _recorder_share(self.recorded_ns, self.length_ns)

    @property
    def is_told(self) -> bool:
        """Whether shares are told of this step: the recorder takes enough of the recorded one to matter."""
        return self.recorder_share >= MIN_RECORDER_SHARE

    @property
    def fixed_scale(self) -> float:
        """The same for a part in which the recorder has no share."""
        return self.mean_ns / self.length_ns if self.length_ns > 0 else 1.0


@derived
def step_times(analysis: Analysis) -> Mapping[int, StepTime]:
    """The step of each active device; none where the recording cannot be replayed."""
    replay = replay_of(analysis)
    if replay.reason:
        return {}
    chance = Removal(replay, replay.recorded, replay.typical)
    recorder = Removal(replay, replay.typical, replay.usual)
    found = {}
    for device in analysis.active_devices:
        budget = analysis.budgets(device)
        spans = [number for number, span in enumerate(replay.spans) if device in span.devices]
        if budget.window_ns and spans:
            found[device] = _step_time(analysis, budget, chance, recorder, spans[0])
    return found


@derived
def told_step_times(analysis: Analysis) -> Mapping[int, StepTime]:
    """The same where shares are told without the recorder; else none."""
    replay = replay_of(analysis)
    if replay.reason or _recorder_share(replay.recorded_ns, replay.usual_ns) < MIN_RECORDER_SHARE:
        return {}
    return step_times(analysis)


def _step_time(analysis: Analysis, budget: Budget, chance: Removal, recorder: Removal, span: int) -> StepTime:
    replay = recorder.replay
    factor = replay.mean_ns / budget.window_ns
    parts = {
        "compute": budget.compute_ns,
        _COMMUNICATION: budget.exposed_communication_ns,
        "copy": budget.exposed_copy_ns,
        "other": budget.other_ns,
        **{cause.key: budget.idle_ns.get(cause, 0) for cause in Cause},
        "residual": budget.residual_ns,
    }
    mean = {key: ns * factor for key, ns in parts.items()}
    time = analysis.time(budget.device)
    intervals: dict[str, Intervals] = {cause.key: time.idle[cause] for cause in _OF_HOST}
    intervals[_COMMUNICATION] = time.communication
    edges = replay.spans[span]
    inside = {key: clip(where, edges.start, edges.end) for key, where in intervals.items()}

    def without(removal: Removal, before: Mapping[str, float], length_ns: float) -> dict[str, float]:
        shares = {
            key: removal.host_share(where, span) if length(where) else 0.0 for key, where in inside.items()
        }
        gone = _distributed(max(sum(before.values()) - length_ns, 0.0), before, shares)
        left = {key: ns - gone.get(key, 0.0) for key, ns in before.items()}
        # what is taken out may be all that kept the GPU waiting; its own work stays as long as it is
        too_long = max(sum(left.values()) - length_ns, 0.0)
        too_long *= too_long >= KNOWN_WITHIN * length_ns
        for cause in _OF_HOST:
            left[cause.key], too_long = (
                max(left[cause.key] - too_long, 0.0),
                max(too_long - left[cause.key], 0.0),
            )
        fits = length_ns / max(sum(left.values()), 1.0)  # but for kernels that overlap more in the replay
        return {key: ns * fits for key, ns in left.items()}

    mine = replay.device.device == budget.device
    alone = dict(mean)
    for key, ns in (("compute", replay.others.inside), (Cause.DEPENDENCY.key, replay.others.waits)):
        alone[key] = max(alone[key] - replay.scale * float(ns[mine].sum()) / replay.steps, 0.0)
    recorded = mean if replay.is_mean else without(chance, alone, replay.recorded_ns)
    usual = without(recorder, recorded, replay.usual_ns)
    return StepTime(
        budget.device,
        replay.mean_ns,
        replay.is_mean,
        replay.recorded_ns,
        replay.usual_ns,
        mean,
        recorded,
        usual,
    )


def _recorder_share(recorded_ns: float, length_ns: float) -> float:
    return (recorded_ns - length_ns) / recorded_ns if recorded_ns > 0 else 0.0


def _distributed(
    amount: float, recorded: Mapping[str, float], shares: Mapping[str, float]
) -> dict[str, float]:
    """How much of ``amount`` each part loses: by its share first, then as much as there is of it.

    A CPU that can run ahead wins more than what it saves, so that idle time goes in which the recorder did nothing.
    """
    keys = list(shares)
    whole = np.array([recorded[key] for key in keys])
    gone = whole * np.array([shares[key] for key in keys])
    most = (1.0 - MIN_LEFT) * whole
    if gone.sum() > 0:
        gone = np.minimum(gone * amount / gone.sum(), most)
    for mine in (np.array([key != _COMMUNICATION for key in keys]), np.ones(len(keys), bool)):
        left, missing = np.where(mine, most - gone, 0.0), amount - gone.sum()
        if missing > 0 and left.sum() > 0:
            gone += left * min(missing / left.sum(), 1.0)
    return dict(zip(keys, gone.tolist(), strict=True))
