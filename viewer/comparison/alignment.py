"""Which moment of one recording lies above which of the other; no Qt."""

from __future__ import annotations

from dataclasses import dataclass

from viewer.timeline.geometry.scale import Scale


@dataclass(frozen=True, slots=True)
class Alignment:
    """``before`` lies above ``after`` (ns of either recording); ``stretch``: ns after for one ns before."""

    before: float = 0.0
    after: float = 0.0
    stretch: float = 1.0

    def to_after(self, when: float) -> float:
        """The time after that lies below a time before."""
        return self.after + (when - self.before) * self.stretch

    def to_before(self, when: float) -> float:
        """The time before that lies above a time after."""
        return self.before + (when - self.after) / self.stretch

    def below(self, scale: Scale) -> Scale:
        """What the lower timeline shows while the upper one shows ``scale``."""
        return Scale(self.to_after(scale.t0), self.to_after(scale.t1), scale.width)

    def above(self, scale: Scale) -> Scale:
        """What the upper timeline shows while the lower one shows ``scale``."""
        return Scale(self.to_before(scale.t0), self.to_before(scale.t1), scale.width)

    def limits(self, before: float, after: float) -> tuple[float, float]:
        """From where to where (ns before) one of two recordings of these lengths goes on."""
        return min(0.0, self.to_before(0.0)), max(before, self.to_before(after))
