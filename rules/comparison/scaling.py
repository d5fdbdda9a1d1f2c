"""From one number of GPUs to another: how much faster the work gets done, of how much, and why not all of it."""

from __future__ import annotations

from parsers.model.late import dataclass
from parsers.model.units import how_many, percent, three_digits
from rules.analysis.idle.causes import Cause
from rules.comparison.side import Side

# nearer to as much computing for each GPU as before, or to its fair share, it is meant to be that
SAME_SHARE = 0.25
NOTICEABLE = 0.02  # of the step: parts that grew by more are named


@dataclass(frozen=True, slots=True)
class Scaling:
    """``work`` is how much one GPU computes a step, 1 for as much as before; times are mean steps, ns."""

    gpus_before: int
    gpus_after: int
    work: float
    before_ns: float
    after_ns: float
    reasons: tuple[str, ...]

    @property
    def speedup(self) -> float:
        """How much more work a second of the run does."""
        return self.work * self.gpus_after / self.gpus_before * self.before_ns / self.after_ns

    @property
    def possible(self) -> float:
        return self.gpus_after / self.gpus_before

    def told(self) -> str:
        """ "1.30x of 2.00x on 2 GPUs instead of 1 (65 %), because ..." """
        share = "as much as before" if self.work == 1 else f"{percent(self.work)} of what one did before"
        because = (
            f", because {', '.join(self.reasons)}" if self.reasons and self.speedup < self.possible else ""
        )
        return (
            f"{three_digits(self.speedup)}x of {three_digits(self.possible)}x on {self.gpus_after} instead of "
            f"{how_many(self.gpus_before, 'GPU')} "
            f"({percent(self.speedup / self.possible)} of what they could do; each computes {share}){because}"
        )


def scaling(first: Side, second: Side) -> Scaling | None:
    """None where both have as many GPUs, or where steps or computing are missing."""
    if first.gpus == second.gpus or not (first.gpus and second.gpus and first.step_ns and second.step_ns):
        return None
    steps = first.step_ns, second.step_ns
    computing = first.share("compute") * steps[0], second.share("compute") * steps[1]
    if not all(computing):
        return None
    work = computing[1] / computing[0]
    fair = first.gpus / second.gpus
    meant = next((each for each in (1.0, fair) if abs(work / each - 1) <= SAME_SHARE), work)
    grown = [
        (second.share(part) * steps[1] - first.share(part) * steps[0] * meant, label)
        for part, label in _PARTS
    ]
    told = [
        f"{label} takes {percent(ns / steps[1])} of the step"
        for ns, label in sorted(grown, reverse=True)
        if ns > NOTICEABLE * steps[1]
    ]
    slower = computing[1] / (meant * computing[0]) - 1
    if slower > NOTICEABLE:
        told.append(f"the same computation takes {percent(slower)} longer")
    return Scaling(first.gpus, second.gpus, meant, *steps, tuple(told))


_PARTS = (
    ("communication", "exposed communication"),
    ("copy", "exposed copying"),
    *((cause.name, cause.label) for cause in Cause),
)
