"""A whole trial: changes in the running program, settings in launches of their own, losses, and winners together."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parsers.model.late import dataclass
from parsers.model.units import duration
from rules.fixes.plan import Promise
from rules.trials.blocks import BLOCKS_A_ROUND, Block, have_different_sizes, rounds_with, whole_rounds
from rules.trials.trial import Candidate, Kind, Trial, Trials, Verdict, beside, trial_of
from viewer.capture.request import CaptureRequest
from viewer.capture.torch_runner.stallscope_recorder.trials.driver import LOSSES
from viewer.capture.torch_runner.stallscope_recorder.trials.schedule import CONTROL, TOGETHER, USUAL_WINNERS
from viewer.capture.trials.account import Account, block_of, joined
from viewer.capture.trials.alternation import BASELINES, MIN_LAUNCHES, Alternation, Setting, UnchangedRuns
from viewer.capture.trials.choice import choice_of, starts_after
from viewer.capture.trials.launch import SKIP, Launched, Launcher, Order
from viewer.capture.trials.relaunching import Plan, ended_early, plan_of, too_few_steps
from viewer.capture.trials.source import Source

STARTS_SHARE = 0.4  # of the time, where settings of the start are to be tried
MAX_CRASHES = 3
MAX_LOSSES_SHARE = 0.4  # of the time, where a script ends so early that it is launched again and again
CONTROL_CANDIDATE = Candidate(CONTROL, Kind.CONTROL, "Nothing changed (control)")
TOGETHER_CANDIDATE = Candidate(TOGETHER, Kind.TOGETHER, "All that won, together")


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants tried; ``blocks`` each way for each change, ``seconds`` for all launches together.

    Without ``losses`` nothing is launched to compare results.
    """

    request: CaptureRequest
    fixes: tuple[str, ...] = ()
    blocks: int = 6
    seconds: float = 120.0
    losses: bool = True

    @property
    def rounds(self) -> int:
        return max(1, -(-2 * self.blocks // BLOCKS_A_ROUND))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a trial is: the block that ended of a candidate, known ``so_far``, or the ``trial`` that is done."""

    text: str
    block: int = 0
    of: int = 0
    seconds_left: float = 0.0
    trial: Trial | None = None
    so_far: Trial | None = None


class Trying:
    """``run`` blocks and gives the values; ``stop`` and ``kill`` may be called from any thread meanwhile."""

    def __init__(
        self,
        wish: Wish,
        folder: Path,
        promises: Sequence[Promise] = (),
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_text: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._wish = wish
        self._on_progress = on_progress
        self._choice = choice_of(promises, wish.fixes)
        self._launcher = Launcher(wish.request, folder, self._heard, on_text)
        self._live: dict[str, list[Block]] = defaultdict(list)
        self._told: set[str] = set()
        self._trying = ""
        self._hears_blocks = True  # those of later launches are no blocks of the control, though called so
        self._restless = False
        self._control: Trial | None = None
        self._skip, self._steps = SKIP, 0
        self._unchanged = UnchangedRuns()
        self._deadline = float("inf")
        self.program: Mapping[str, Any] = {}
        self.source = Source()
        self.traceback = ""  # of the script, where it failed by itself

    @property
    def killed(self) -> bool:
        return self._launcher.killed

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """What is to be tried, in its order; starts may follow that a ceiling makes worth a launch."""
        return (CONTROL_CANDIDATE, *self._choice.changes, *self._choice.starts)

    def stop(self) -> None:
        self._launcher.stop()

    def kill(self) -> None:
        self._launcher.kill()

    def run(self) -> Trials:
        """Try everything; raises ``CaptureProblem`` where the program cannot even start."""
        began = time.monotonic()
        self._deadline = began + self._wish.seconds
        share = 1 - STARTS_SHARE if self._choice.starts else 1.0
        if not self._choice.changes and self._choice.starts:
            share = STARTS_SHARE
        account, problem = self._try_changes(self._wish.seconds * share)
        self.program = account.program
        self.source = Source(account.sites, account.edits)
        trials = self._trials(account)
        if problem and not account.blocks:
            return Trials(tuple(trials), ended=account.ended or "failed", problem=problem)
        control = next((each for each in trials if each.candidate.kind is Kind.CONTROL), None)
        known = Trials(
            tuple(each for each in trials if each is not control),
            control,
            account.ended or "failed",
            problem,
            have_different_sizes(account.blocks),
            self._time_needed(account, time.monotonic() - began),
        )
        if known.differs_from_itself:
            return _without_gains(known)
        of_starts = self._try_starts(known, account)
        if any(each.candidate.kind is Kind.TOGETHER and each.gain for each in of_starts):
            of_changes = [each for each in known.trials if each.candidate.kind is not Kind.TOGETHER]
            known = replace(known, trials=tuple(of_changes))
        known = replace(known, trials=(*known.trials, *of_starts))
        known = self._with_losses(known, account)
        if self._launcher.is_stopped():
            known = replace(known, ended="stopped", problem=problem or _stopped(began))
        return _without_gains(known) if known.restless else known

    def _try_changes(self, seconds: float) -> tuple[Account, str]:
        """Launch until everything has its rounds: again where the script ends before, or a change brings it down."""
        left = list(self._choice.changes)
        ends = time.monotonic() + seconds
        whole, crashes = Account(), 0
        order = Order(
            seconds=max(seconds, 1.0),
            rounds=self._wish.rounds,
            losses=LOSSES if self._wish.losses else 0,
            seed=True,
            compares=self._wish.losses,
        )
        while True:
            candidates = tuple((each.switch, self._choice.weight(each)) for each in left)
            launched = self._launcher.launch(replace(order, candidates=candidates))
            self._unchanged.keep(launched.account.losses)
            before, whole = whole, joined(whole, launched.account)
            passed_over = set(launched.account.refused) & {each.switch for each in left}
            if self._launcher.is_stopped() or self._restless:
                break
            if launched.account.ended == "failed" and passed_over and crashes + 1 < MAX_CRASHES:
                crashes += 1
                order = replace(order, seconds=max(ends - time.monotonic(), 1.0), known=whole.blocks)
            elif ended_early(launched):
                plan = plan_of(launched.account.seen, whole.step_ns)
                if plan is None:
                    return whole, too_few_steps(launched.account.seen)
                gained = len(whole.blocks) - len(whole_rounds(before.blocks))
                if not gained and plan == Plan(order.steps, order.skip):
                    passed_over.add(launched.account.unfinished)
                    if launched.account.unfinished == CONTROL:
                        return whole, too_few_steps(launched.account.seen)
                time_left = ends - time.monotonic() - self._launcher.seconds
                if any(each.is_a_gain for each in self._trials(whole)):
                    time_left -= self._for_losses(seconds)
                if time_left <= 0:
                    whole = replace(whole, ended="time")
                    break
                self._skip, self._steps = plan.skip, plan.steps
                order = replace(
                    order,
                    seconds=time_left,
                    steps=plan.steps,
                    skip=plan.skip,
                    losses=0,
                    compares=False,
                    known=whole.blocks,
                )
            else:
                break
            left = [each for each in left if each.switch not in passed_over | set(whole.against)]
            self._live = _by_candidate(whole.blocks)
        self._finish_telling()
        self._hears_blocks = False
        return whole, "" if whole.ended == "time" else self._why_less(launched)

    def _time_needed(self, account: Account, spent: float) -> int:
        """Seconds that everything might take, from what was tried by then; whole tens."""
        done = {CONTROL, *account.refused, *(block.candidate for block in account.blocks)}
        left = [
            each.switch
            for each in self._choice.changes
            if each.switch not in done and each.switch not in account.against
        ]
        each_took = spent / max(len(done) - len(account.refused), 1)
        compiling = sum(account.compiling_s.get(name, 0.0) for name in left)
        return round((self._wish.seconds + each_took * len(left) + compiling) / 10) * 10 if left else 0

    def _for_losses(self, seconds: float) -> float:
        """What of the time is kept for launches that compare losses."""
        wanted = (1 + USUAL_WINNERS) * self._launcher.seconds if self._wish.losses else 0.0
        return min(wanted, MAX_LOSSES_SHARE * seconds)

    def _why_less(self, launched: Launched) -> str:
        if self._launcher.killed:
            return "The program was killed, so there are no results."
        ended = launched.account.ended
        if self._launcher.is_stopped() or ended in ("complete", "time"):
            return ""
        if launched.error:
            self.traceback = launched.outcome.traceback if launched.outcome is not None else ""
            return f"The script failed: {launched.error.rstrip('.')}." if self.traceback else launched.error
        code = launched.outcome.exit_code if launched.outcome is not None else 0
        how = f" with exit code {code}" if code else ""
        return f"The script ended{how} before everything was tried. Let it run for more steps."

    def _trials(self, account: Account) -> list[Trial]:
        by_name = _by_candidate(account.blocks)
        found = [trial_of(CONTROL_CANDIDATE, by_name[CONTROL])] if by_name[CONTROL] else []
        self._control = found[0] if found else None
        for candidate in self._choice.changes:
            against = account.against.get(candidate.switch, "")
            refused = account.refused.get(candidate.switch, "")
            tried = trial_of(replace(candidate, against=against), by_name[candidate.switch], refused)
            found.append(beside(tried, self._control))
        if by_name[TOGETHER] and len(account.together) > 1:
            rounds = rounds_with(by_name[TOGETHER], account.together)
            tried = trial_of(TOGETHER_CANDIDATE, rounds, account.refused.get(TOGETHER, ""))
            found.append(beside(tried, self._control))
        return found

    def _try_starts(self, known: Trials, account: Account) -> list[Trial]:
        """Each setting in launches of its own, without and with it in turn."""
        ceilings = {Verdict.PROVED: list[str](), Verdict.NO_DIFFERENCE: list[str]()}
        for each in known.trials:
            if each.candidate.kind is Kind.CEILING:
                ceilings.get(each.verdict, []).append(each.candidate.switch)
        starts = starts_after(self._choice, ceilings[Verdict.PROVED], ceilings[Verdict.NO_DIFFERENCE])
        if not starts:
            return []
        each_of_them = max((self._deadline - time.monotonic()) / MIN_LAUNCHES, 1.0)
        order = Order(steps=self._steps, skip=self._skip, seconds=each_of_them)
        alternation = Alternation(
            self._launcher, order, self._unchanged, self._have_time_for, self._say_launch
        )
        told, source = alternation.begin(starts).account, self.source
        self.source = Source(source.sites or told.sites, {**source.edits, **told.edits})
        sensible = [replace(each, against=told.against.get(each.switch, "")) for each in starts]
        settings = [Setting(each, (each.switch,), control=self._control) for each in sensible]
        found = alternation.run(settings, self._tell)
        won = [each for each in found if each.is_a_gain]
        changes = account.together
        if won and (len(won) > 1 or changes) and not self._launcher.is_stopped():
            names = tuple(each.candidate.switch for each in won)
            together = Setting(TOGETHER_CANDIDATE, names, changes, self._control)
            (whole,) = alternation.run([together], self._tell)
            found.append(replace(whole, members=(*changes, *names)))
        return found

    def _say_launch(self, candidate: Candidate, launch: int, of: int, so_far: Trial) -> None:
        self._say(candidate.title, launch, of, so_far=so_far)

    def _have_time_for(self, launches: int) -> bool:
        """Whether so many more launches like the last one end before the time does."""
        return time.monotonic() + launches * self._launcher.seconds <= self._deadline

    def _with_losses(self, known: Trials, account: Account) -> Trials:
        """Winners from the same start as two runs without them: all together first, then what is in that whole.

        The losses of a run without come first; what there is no time for stays without a comparison.
        """
        winners = [
            each
            for each in known.trials
            if each.is_a_gain and each.loss is None and (each.candidate.kind is not Kind.START)
        ]
        winners.sort(key=lambda each: _weight_of_losses(each, known.winners), reverse=True)
        if not winners or not self._wish.losses or account.program.get("trains") is False:
            return known
        order = Order(rounds=0, losses=LOSSES, seed=True)
        for number in self._unchanged.missing:
            if not self._launcher.is_stopped():
                self._say(f"comparing losses: unchanged program, run {number} of {BASELINES}")
                self._unchanged.keep(self._launcher.launch(order).account.losses)
        told: dict[str, Trial] = {}
        curves = [("", losses) for losses in self._unchanged.losses]
        for each in winners:
            if self._launcher.is_stopped() or (told and not self._have_time_for(1)):
                break
            self._say(f"comparing losses: {each.candidate.title}")
            changes = each.members or (each.candidate.switch,)
            launched = self._launcher.launch(replace(order, changes=changes))
            if self._launcher.is_stopped():
                break
            curves.append((each.candidate.switch, launched.account.losses))
            told[each.candidate.switch] = self._unchanged.judged(each, launched.account.losses)
        trials = tuple(told.get(each.candidate.switch, each) for each in known.trials)
        names, losses = zip(*curves, strict=True) if curves else ((), ())
        return replace(known, trials=trials, losses=losses, losses_of=names)

    def _heard(self, line: Mapping[str, Any]) -> None:
        """What the recorder says while a launch goes on."""
        name = str(line.get("candidate") or "")
        block = block_of(line)
        if line.get("kind") == "steps" and not self._live:
            self._say(f"a step takes {duration(float(line.get('step_ns') or 0.0))}")
        if line.get("kind") == "candidate" and line.get("against"):
            self._pass_over(str(line.get("name")), str(line["against"]))
        if block is not None and self._hears_blocks:
            if name != self._trying:
                self._finish_telling()
                self._trying = name
            blocks = self._live[name]
            if block.changed and any(each.changed and each.changes != block.changes for each in blocks):
                self._live[name] = blocks = []
            blocks.append(block)
            of = max(self._wish.rounds * BLOCKS_A_ROUND, len(blocks))
            candidate = self._candidate(name)
            so_far = beside(trial_of(candidate, blocks), self._control) if candidate is not None else None
            title = candidate.title if candidate is not None else name
            self._say(title, len(blocks), of, so_far=so_far)

    def _say(
        self, text: str, block: int = 0, of: int = 0, trial: Trial | None = None, so_far: Trial | None = None
    ) -> None:
        left = max(self._deadline - time.monotonic(), 0.0) if self._deadline < float("inf") else 0.0
        self._on_progress(Progress(text, block, of, left, trial, so_far))

    def _pass_over(self, name: str, reason: str) -> None:
        """Say that a change makes no sense in the program."""
        candidate = self._candidate(name)
        if candidate is not None:
            no_trial = trial_of(replace(candidate, against=reason), [])
            self._say("finding out what can be tried", so_far=no_trial)

    def _finish_telling(self) -> None:
        """Say what became of the candidate whose blocks ended; after more rounds of one, only what is known by now."""
        name, self._trying = self._trying, ""
        candidate = self._candidate(name)
        if candidate is None:
            return
        trial = beside(trial_of(candidate, self._live[name]), self._control)
        if candidate.kind is Kind.CONTROL:
            self._control = trial
            if trial.gain is not None and trial.gain.is_seen:
                self._restless = True
                self._launcher.end_launch()
        if self._restless:
            return
        if name in self._told:
            self._say(candidate.title, so_far=trial)
            return
        self._told.add(name)
        self._tell(trial)

    def _tell(self, trial: Trial) -> None:
        if trial.gain is not None or trial.refused:
            self._say(trial.candidate.title, trial=trial)

    def _candidate(self, name: str) -> Candidate | None:
        every: Iterable[Candidate] = (CONTROL_CANDIDATE, TOGETHER_CANDIDATE, *self._choice.changes)
        return next((each for each in every if each.switch == name), None)


def _by_candidate(blocks: Iterable[Block]) -> dict[str, list[Block]]:
    found: dict[str, list[Block]] = defaultdict(list)
    for block in blocks:
        found[block.candidate].append(block)
    return found


def _weight_of_losses(trial: Trial, kept: Sequence[str]) -> tuple[bool, bool, float]:
    candidate = trial.candidate
    gain = trial.gain.value if trial.gain is not None else 0.0
    return candidate.kind is Kind.TOGETHER, candidate.switch in kept, gain


def _without_gains(known: Trials) -> Trials:
    return replace(known, trials=tuple(replace(each, gain=None) for each in known.trials), problem="")


def _stopped(began: float) -> str:
    return f"Stopped after {time.monotonic() - began:.0f} s: these are the results so far."
