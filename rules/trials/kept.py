"""What is kept of a trial in the journal of a program: what was promised of each change, and what it gave."""

from __future__ import annotations

from parsers.model.late import dataclass
from rules.trials.trial import Kind, Trials


@dataclass(frozen=True, slots=True)
class KeptTrial:
    """One change; ``promised`` is (low, expected, high), ``measured`` (low, gain, high), None where there is none."""

    switch: str
    kind: str
    title: str
    fix: str = ""
    promised: tuple[float, float, float] | None = None
    measured: tuple[float, float, float] | None = None
    loss: str = ""

    @property
    def held(self) -> bool | None:
        """Whether the bands of what was promised and measured meet; None where one is missing."""
        if self.promised is None or self.measured is None:
            return None
        return self.promised[0] <= self.measured[2] and self.measured[0] <= self.promised[2]


def kept_trials(trials: Trials) -> tuple[KeptTrial, ...]:
    """What is kept of a trial: every change of which something was measured, but not the control."""
    if trials.restless:
        return ()
    return tuple(
        KeptTrial(
            each.candidate.switch,
            each.candidate.kind.value,
            each.candidate.title,
            each.candidate.fix,
            (promised.low, promised.expected, promised.high) if promised is not None else None,
            (each.gain.low, each.gain.value, each.gain.high),
            each.loss.likeness.value if each.loss is not None else "",
        )
        for each in trials.trials
        for promised in [each.candidate.promised]
        if each.gain is not None and each.candidate.kind is not Kind.CONTROL
    )
