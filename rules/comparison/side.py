"""One recording of a comparison: its step, what its time goes to, and its kernels by name and by family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from parsers.model import CopyKind, EventKind, Trace
from parsers.model.late import dataclass
from parsers.model.names.kernels import comparable_name
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.copies import copies_of
from rules.analysis.idle.causes import Budget, Cause
from rules.analysis.names.families import classify
from rules.analysis.steps.steps import Step
from rules.comparison.kernel_rows import Work
from rules.comparison.step_times import StepTimes
from rules.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Side:
    """A trace with what is known about it."""

    trace: Trace
    analysis: Analysis
    diagnosis: Diagnosis
    whole: bool = False  # compared as a whole, even where it has steps

    @property
    def window_ns(self) -> int:
        return self.analysis.window[1] - self.analysis.window[0]

    @property
    def found_by(self) -> str:
        """How its steps were found; "" without steps."""
        steps = [step for step in self.analysis.steps if step.steady]
        return steps[0].found_by if steps and steps[0].found_by != "window" else ""

    @property
    def step_times(self) -> StepTimes:
        """Of the steady steps; none without steps."""
        return StepTimes.of(self.analysis.steps if self.found_by else ())

    @property
    def step_ns(self) -> float:
        """Mean of the steady steps, which is what a run costs; 0 without steps."""
        return self.step_times.mean

    @property
    def repetitions(self) -> int:
        """Steady steps of all ranks together; one where no steps were found, or where they are not compared."""
        return 1 if self.whole else sum(step.steady for step in self.analysis.steps) or 1

    @property
    def copied_bytes(self) -> int:
        """What was copied between the host and the GPUs in the analysed time, in both directions."""
        directions = (CopyKind.H2D, CopyKind.D2H)
        devices = self.analysis.active_devices
        return sum(copies_of(self.analysis, device, each).bytes for device in devices for each in directions)

    @property
    def gpus(self) -> int:
        return len(self.analysis.active_devices)

    def share(self, part: str) -> float:
        """The part of the window, over all devices, that is "busy", one of ``_PARTS``, or a cause's name."""
        total = inside = 0
        for device in self.analysis.active_devices:
            budget = self.analysis.budget(device, *self.analysis.window)
            total += budget.window_ns
            if part == "busy":
                inside += budget.window_ns - budget.total_idle_ns - budget.residual_ns
            elif part in _PARTS:
                inside += _PARTS[part](budget)
            else:
                inside += budget.idle_ns.get(Cause[part], 0)
        return inside / total if total else 0.0

    @property
    def typical(self) -> Step | None:
        """The steady step of median length of the first rank; None without steps."""
        steady = self.analysis.steady_steps
        return self.typical_of(steady[0].rank) if steady else None

    def typical_of(self, rank: int | None) -> Step | None:
        """The steady step of median length of a rank; None where it has none."""
        steady = self.analysis.steady_steps if self.found_by and not self.whole else ()
        mine = sorted((step for step in steady if step.rank == rank), key=lambda step: step.duration)
        return mine[(len(mine) - 1) // 2] if mine else None

    def work(self, *kinds: EventKind) -> dict[str, tuple[str, Work]]:
        """Of operations of these kinds: a name that all tools would give -> (a name as recorded, its work)."""
        events, strings = self.trace.events, self.trace.strings
        kernels = events.of_kind(*kinds)
        t0, t1 = self.analysis.window
        kernels = kernels[(events.start[kernels] >= t0) & (events.start[kernels] < t1)]
        names = events.name[kernels]
        calls = np.bincount(names, minlength=len(strings))
        time = np.bincount(names, (events.end - events.start)[kernels], minlength=len(strings))
        found: dict[str, tuple[str, Work]] = {}
        for name in np.flatnonzero(calls).tolist():
            key = comparable_name(strings[name])
            shown, (launches, ns) = found.get(key, (strings[name], (0.0, 0.0)))
            work = (launches + calls[name] / self.repetitions, ns + time[name] / self.repetitions)
            found[key] = (shown, work)
        return found


_PARTS: dict[str, Callable[[Budget], int]] = {
    "compute": lambda budget: budget.compute_ns,
    "communication": lambda budget: budget.exposed_communication_ns,
    "copy": lambda budget: budget.exposed_copy_ns,
    "other": lambda budget: budget.other_ns,
}


def by_family(kernels: dict[str, tuple[str, Work]]) -> dict[str, Work]:
    """Family -> its work."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, (calls, ns) in kernels.values():
        work = found[classify(name).family.label]
        work[0] += calls
        work[1] += ns
    return {family: (calls, ns) for family, (calls, ns) in found.items()}
