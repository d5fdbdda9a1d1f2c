"""What is kept of a trial in the journal of a program: what was promised of each change, and what it gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

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

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> KeptTrial:
        """Raises ``ValueError``, ``TypeError`` or ``KeyError`` where it is none."""
        return cls(
            str(data["switch"]),
            str(data["kind"]),
            str(data["title"]),
            str(data["fix"]),
            _three(data["promised"]),
            _three(data["measured"]),
            str(data["loss"]),
        )


def _three(value: Any) -> tuple[float, float, float] | None:
    if value is None:
        return None
    low, middle, high = value
    return float(low), float(middle), float(high)


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
