"""Settings of the start: launches with each and without any take turns, in an order in which drift cancels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from parsers.model.late import dataclass
from rules.trials.blocks import Block
from rules.trials.likeness import compare_losses
from rules.trials.trial import Candidate, Trial, beside, trial_of, trial_of_launches
from viewer.capture.torch_runner.stallscope_recorder.trials.driver import LOSSES
from viewer.capture.trials.choice import candidate_named
from viewer.capture.trials.launch import Launched, Launcher, Order

BASELINES = 2

Losses = Sequence[float | None]


class UnchangedRuns:
    """The losses of the first runs without a change, in order."""

    def __init__(self) -> None:
        self.losses: list[Losses] = []

    @property
    def missing(self) -> range:
        return range(len(self.losses) + 1, BASELINES + 1)

    def keep(self, losses: Losses) -> None:
        """Another run ended, which may have come to no loss."""
        if losses and self.missing:
            self.losses.append(losses)

    def judged(self, trial: Trial, losses: Losses) -> Trial:
        """The trial of a gain with how its losses compare; as it is where there is nothing to compare."""
        if self.missing or trial.gain is None or not losses:
            return trial
        members = [candidate_named(each) for each in trial.members]
        rounds = trial.candidate.rounds or any(each.rounds for each in members)
        first, second = self.losses
        return replace(trial, loss=compare_losses(first, second, losses, rounds=rounds))


MIN_LAUNCHES = 4  # two of each kind; what is not clear by then gets as many again, where time is left
LAUNCH_ROUNDS = 1


@dataclass(slots=True)
class Setting:
    """A candidate with the ``starts`` and ``changes`` that make it up, and what its launches gave so far.

    ``control`` is what the program differs by from itself within one launch.
    """

    candidate: Candidate
    starts: tuple[str, ...]
    changes: tuple[str, ...] = ()
    control: Trial | None = None
    without: list[Sequence[Block]] = field(default_factory=list)
    with_it: list[Sequence[Block]] = field(default_factory=list)
    losses: Losses = ()
    refused: str = ""

    @property
    def launches(self) -> int:
        return len(self.without) + len(self.with_it)

    @property
    def trial(self) -> Trial:
        if self.refused or not self.with_it:
            return trial_of(self.candidate, [], self.refused)
        return beside(trial_of_launches(self.candidate, self.without, self.with_it), self.control)

    @property
    def is_close(self) -> bool:
        """Whether more launches may tell what these cannot."""
        gain = self.trial.gain
        return not self.refused and not (gain is not None and gain.is_seen)


class Alternation:
    """``say`` is told a setting, the number of its next launch, how many it gets, and its trial so far.

    ``order`` holds what every launch is told.
    """

    def __init__(
        self,
        launcher: Launcher,
        order: Order,
        unchanged: UnchangedRuns,
        has_time_for: Callable[[int], bool],
        say: Callable[[Candidate, int, int, Trial], None],
    ) -> None:
        self._launcher = launcher
        self._order = replace(order, rounds=LAUNCH_ROUNDS, losses=LOSSES, seed=True)
        self._unchanged = unchanged
        self._has_time_for = has_time_for
        self._say = say
        self._last: Launched | None = None  # the launch before, where it was one without a setting

    def begin(self, candidates: Sequence[Candidate]) -> Launched:
        """The first launch without any, which says why some make no sense, and whose blocks count as well."""
        return self._launch_without(tuple((each.switch, 1.0) for each in candidates))

    def run(self, settings: Sequence[Setting], on_trial: Callable[[Trial], None]) -> list[Trial]:
        """The trials of those there was time for, and at least of the first; empty ones of the others.

        As many take turns at once as the time allows, and share the launches without any.
        """
        left, close = [each for each in settings if not each.candidate.against], list[Setting]()
        is_first = True
        while left and not self._launcher.is_stopped():
            fitting = next((n for n in range(len(left), 0, -1) if self._has_time_for(2 * n + 1)), 0)
            if not fitting and not is_first:
                break
            is_first, group, left = False, left[: max(fitting, 1)], left[max(fitting, 1) :]
            self._turns(group, MIN_LAUNCHES)
            for each in group:
                if each.is_close:
                    close.append(each)
                else:
                    on_trial(self._judged(each))
        more = next((n for n in range(len(close), 0, -1) if self._has_time_for(2 * n + 2)), 0)
        self._more_turns(close[:more], 2 * MIN_LAUNCHES)
        for each in close:
            on_trial(self._judged(each))
        return [self._judged(each) for each in settings]

    def _judged(self, setting: Setting) -> Trial:
        return self._unchanged.judged(setting.trial, setting.losses)

    def _turns(self, group: Sequence[Setting], of: int) -> None:
        self._without(group, of)
        for each in (*group, *reversed(group)):
            self._with(each, of)
        self._without(group, of)

    def _more_turns(self, group: Sequence[Setting], of: int) -> None:
        """With each, twice without, and with each in the opposite order."""
        for each in group:
            self._with(each, of)
        for _ in range(2):
            self._last = None
            self._without(group, of)
        for each in reversed(group):
            self._with(each, of)

    def _with(self, setting: Setting, of: int) -> None:
        if setting.refused or self._launcher.is_stopped():
            return
        self._tell(setting, of)
        launched = self._launcher.launch(replace(self._order, starts=setting.starts, changes=setting.changes))
        self._last = None
        refused = next(iter(launched.account.refused.values()), "") or launched.error
        if self._launcher.is_stopped():
            return
        setting.refused = refused
        setting.losses = setting.losses or launched.account.losses
        setting.with_it.append(launched.account.blocks)

    def _without(self, group: Sequence[Setting], of: int) -> None:
        """One launch without any, which all of a group share: the one before, where that was such a one."""
        wanted = [each for each in group if not each.refused]
        if not wanted or self._launcher.is_stopped():
            return
        self._tell(wanted[0], of)
        launched = self._last or self._launch_without()
        for each in wanted:
            each.without.append(launched.account.blocks)

    def _launch_without(self, candidates: tuple[tuple[str, float], ...] = ()) -> Launched:
        launched = self._launcher.launch(replace(self._order, candidates=candidates))
        self._last = launched
        self._unchanged.keep(launched.account.losses)
        return launched

    def _tell(self, setting: Setting, of: int) -> None:
        self._say(setting.candidate, setting.launches + 1, of, setting.trial)
