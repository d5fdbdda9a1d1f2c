"""What became of each change that was tried, as values that windows, reports and the journal read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from parsers.model.late import dataclass
from rules.trials.blocks import Block, Gain, gain_of, gain_of_launches, sides
from rules.trials.likeness import LossComparison

MAX_TELLING = 2.0  # bounds that reach further tell nothing


class Kind(Enum):
    """How a change was tried."""

    SWITCH = "switch"
    START = "start"
    CEILING = "ceiling"
    CONTROL = "control"
    TOGETHER = "together"


class Verdict(Enum):
    """What a trial says."""

    PROVED = "proved"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    REFUSED = "refused"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class Promised:
    """The gain that a replay promised, as factors."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change to try: ``fix`` is the promise it would keep, empty where none was made.

    ``rounds`` says that it computes with fewer digits, ``against`` why it makes no sense in the program.
    """

    switch: str
    kind: Kind
    title: str
    fix: str = ""
    promised: Promised | None = None
    rounds: bool = False
    against: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One change and what it gave; ``members`` are the changes of several that were made together.

    ``peak_bytes`` is the most memory allocated without and with the change, ``settling_ns`` the time that the first
    steps with it took beyond the usual, such as for compiling.
    """

    candidate: Candidate
    gain: Gain | None = None
    baseline_ns: float = 0.0
    blocks: int = 0
    peak_bytes: tuple[int, int] | None = None
    settling_ns: float = 0.0
    refused: str = ""
    loss: LossComparison | None = None
    members: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        if self.refused or self.candidate.against:
            return Verdict.REFUSED
        if self.gain is None:
            return Verdict.NOT_REACHED
        if not self.gain.is_seen:
            return Verdict.NO_DIFFERENCE
        return Verdict.PROVED if self.gain.value > 1 else Verdict.SLOWER

    @property
    def is_a_gain(self) -> bool:
        """Whether the program is faster with it, and it is a change that somebody could keep."""
        return self.verdict is Verdict.PROVED and self.candidate.kind in (
            Kind.SWITCH,
            Kind.START,
            Kind.TOGETHER,
        )


@dataclass(frozen=True, slots=True)
class Trials:
    """All that was tried of one program, in the order in which it was tried.

    ``ended`` is "complete", "time", "stopped" or "failed"; ``problem`` says why less is known than was asked for.
    ``needed_s`` is the time limit that might do for everything where it ran out, seconds, 0 if unknown. ``losses`` are
    a curve for each of ``losses_of``, the changes that were made; the empty name stands for none.
    """

    trials: tuple[Trial, ...] = ()
    control: Trial | None = None
    ended: str = "complete"
    problem: str = ""
    different_sizes: bool = False
    needed_s: int = 0
    losses: tuple[tuple[float | None, ...], ...] = ()
    losses_of: tuple[str, ...] = ()

    @property
    def differs_from_itself(self) -> bool:
        """Whether the control doesn't hold 1."""
        return self.control is not None and self.control.gain is not None and self.control.gain.is_seen

    @property
    def restless(self) -> bool:
        """Whether the program differs from itself, or by so much from block to block that nothing stands out."""
        if self.differs_from_itself:
            return True
        gain = self.control.gain if self.control is not None else None
        return (
            gain is not None
            and (gain.high > MAX_TELLING or gain.low < 1 / MAX_TELLING)
            and not any(each.gain is not None and each.gain.is_seen for each in self.trials)
        )

    @property
    def together(self) -> Trial | None:
        """All that won, made together."""
        return next((each for each in self.trials if each.candidate.kind is Kind.TOGETHER), None)

    @property
    def best(self) -> Trial | None:
        """The whole where there is one, or the largest gain that is proved."""
        if self.together is not None and self.together.is_a_gain:
            return self.together
        won = [each for each in self.trials if each.is_a_gain and each.gain is not None]
        return max(won, key=lambda each: each.gain.value if each.gain else 0.0, default=None)

    @property
    def winners(self) -> tuple[str, ...]:
        """The changes that make up the best, by name."""
        best = self.best
        return (best.members or (best.candidate.switch,)) if best is not None else ()


def trial_of(candidate: Candidate, blocks: Sequence[Block], refused: str = "") -> Trial:
    """The trial of a candidate from its blocks."""
    gain = None if refused else gain_of(blocks)
    without, _ = sides(blocks)
    members = next((block.changes for block in blocks if block.changed), ())
    return Trial(
        candidate,
        gain,
        without.median,
        len(blocks),
        _peaks(blocks),
        max((block.settling_ns for block in blocks), default=0.0),
        refused,
        members=members if len(members) > 1 else (),
    )


def beside(trial: Trial, control: Trial | None) -> Trial:
    """The trial with bounds that allow for what the program differs by from itself.

    A change with luckily quiet blocks would be sure of more than the machine allows. Of more blocks than the control
    has, the noise is less by the root of their number.
    """
    is_control = trial.candidate.kind is Kind.CONTROL
    if is_control or trial.gain is None or control is None or control.gain is None:
        return trial
    share = min(1.0, math.sqrt(control.blocks / trial.blocks))
    return replace(trial, gain=trial.gain.as_wide_as(control.gain, share))


def trial_of_launches(
    candidate: Candidate,
    without: Sequence[Sequence[Block]],
    with_it: Sequence[Sequence[Block]],
    refused: str = "",
) -> Trial:
    """The trial of what is fixed at start, from launches without and with it."""
    before = [block for launch in without for block in launch]
    after = [replace(block, changed=True) for launch in with_it for block in launch]
    every = [*(replace(block, changed=False) for block in before), *after]
    return Trial(
        candidate,
        None if refused else gain_of_launches(without, with_it),
        sides(every)[0].median,
        len(every),
        _peaks(every),
        0.0,
        refused,
    )


def _peaks(blocks: Sequence[Block]) -> tuple[int, int] | None:
    parts = [
        [block.peak_bytes for block in blocks if block.changed is changed and block.peak_bytes is not None]
        for changed in (False, True)
    ]
    if not all(parts):
        return None
    return int(np.max(parts[0])), int(np.max(parts[1]))
