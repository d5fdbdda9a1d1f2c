"""One recording from the import of torch to the written file: follows the steps, obeys limits and the stop request."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any, List, Mapping

from .agreement import agreement_for
from .hooks import Hooks
from .options import Options
from .places import ScalarReads
from .ranges import GarbageRanges, ModuleRanges
from .recorders import CudaRangeRecorder, TorchRecorder
from .slow_steps import SlowStepRecorder
from .status import Status
from .steps import StepFinder
from .trials.recorder import TrialRecorder

RECORDERS: dict[str, Any] = {
    "torch": TorchRecorder,
    "cuda-range": CudaRangeRecorder,
    "trial": TrialRecorder,
    "slow-steps": SlowStepRecorder,
}
FEW_STEPS = 20
SAY_EVERY = 0.25
"""Recorded steps, and others beyond the first few, are reported at most every so many seconds: that takes time."""
NOTHING_FOUND = (
    "no steps found: the script called no optimizer, DataLoader, model or backward pass of torch in this process. "
    "Record the whole run (--steps whole), or name the range that begins a step (--steps region --region NAME)."
)


class Session:
    """Joins the step finder with a recorder. Everything but ``request`` runs on the thread that makes the steps."""

    def __init__(self, options: Options, status: Status, rank: int) -> None:
        self.options = options
        self.status = status
        self.rank = rank
        self.finder = StepFinder("auto" if options.steps == "whole" else options.steps, self._on_boundary)
        self._agreement = agreement_for(options.out, options.name, rank)
        self.recorder: Any = None
        self.hooks: Hooks | None = None
        self.switched_off = False
        self.over = False
        self.stopping_script = False
        self.handed_over = False
        self.recording = False
        self.problem = ""
        self._started_at = -1
        self._steps_needed = 0
        self._wants_finish = False
        self._wants_start = False
        self._busy = False
        self._thread: int | None = None
        self._stops = 0
        self._said = ""
        self._said_at = 0.0

    @property
    def written(self) -> List[str]:
        return list(self.recorder.written) if self.recorder is not None else []

    def torch_is_there(self) -> None:
        if self.recorder is not None or self.switched_off:
            return
        kind = "slow-steps" if self.options.when_slow else self.options.recorder
        self.recorder = RECORDERS[kind](self.options, self.rank, self.status.say)
        self.hooks = Hooks(self.finder, self.recorder.ranges, self.options.region)
        if isinstance(self.recorder, TrialRecorder):
            self.hooks.calls = self.recorder.calls
            self.recorder.models_are_known = self.hooks.spare
            self.recorder.program.optimizer_stepped = lambda optimizer: self.finder.optimized(id(optimizer))
        self.hooks.install()
        ranges = self.recorder.ranges
        if self.options.phases:
            ranges.watch_with(GarbageRanges(ranges))
            if isinstance(self.recorder, TorchRecorder):
                ranges.watch_with(ScalarReads(self.recorder.places))
        if self.options.modules:
            modules = ModuleRanges(ranges)
            self.hooks.on_new_root = modules.know
            ranges.watch_with(modules)
        if self.options.steps == "whole" and self.options.delay <= 0:
            self.start_whole()
        else:
            self.status.say("waiting", text="for the first steps")

    def start_whole(self) -> None:
        """Record everything from now on, until the time limit or the end."""
        if self.recorder is None or self.recording or self.over:
            return
        self._thread = threading.get_ident()
        if self.options.trial:
            self.finish()
            self._stop_script()
        self.recorder.start(None)
        self.recording = True
        self.status.say("recording", text="the whole run, at most {:g} s".format(self.options.time_limit))

    def _on_boundary(self, ended: int) -> None:
        if self.switched_off or self._busy:
            return
        if self.over:
            self._stop_script()
            return
        if self._thread not in (None, threading.get_ident()):
            return
        if self._agreement is not None:
            self._agreement.note(ended)
        if self.options.steps == "whole":
            if self.recording and self._agreement is not None and self._is_last(ended):
                self.finish()
                self._stop_script()
            return
        self._thread = threading.get_ident()
        self._busy = True
        try:
            complete = self._follow(ended)
        finally:
            self._busy = False
        if complete:
            self._stop_script()

    def _follow(self, ended: int) -> bool:
        """Let the recorder follow to this boundary; whether the recording is complete with it."""
        options, begins, late = self.options, self._started_at < 0, min(ended, self.options.skip_first)
        if begins:
            self._started_at = ended
            self._steps_needed = options.all_steps - late
            self.status.say("steps-found", text="by {}".format(self.finder.source))
        done = ended - self._started_at
        if done < self._steps_needed:  # before the recorder's step: the first recorded one does not hold it
            self._report(options.all_steps - self._steps_needed + done)
        if begins:
            self.recorder.start(late)
        else:
            self.recorder.step()
        if self.recorder.complete or done >= self._steps_needed or self._is_last(ended):
            self.finish()
            return True
        return False

    def _is_last(self, ended: int) -> bool:
        """Whether a request to finish takes effect here; the ranks of one run agree on where."""
        if self._agreement is None:
            return self._wants_finish
        if self._wants_finish:
            self._agreement.propose()
        last = self._agreement.last_step()
        return last is not None and ended >= last

    def _report(self, step: int) -> None:
        options = self.options
        self.finder.locked = step >= options.skip_first
        if options.trial or options.when_slow:
            return
        cycle = options.wait + options.warmup + options.active
        into = (step - options.skip_first) % cycle - options.wait - options.warmup
        self.recording = step >= options.skip_first and into >= 0
        phase = "recording" if self.recording else "warming-up"
        number = into + 1 if self.recording else step + 1
        of = options.active if self.recording else options.before_recording
        now = time.monotonic()
        in_full = number <= FEW_STEPS and not self.recording
        if in_full or phase != self._said or now - self._said_at >= SAY_EVERY:
            self._said, self._said_at = phase, now
            self.status.say(phase, step=number, of=of)

    def others_ask(self) -> bool:
        """Whether another rank wants the recording to end; called by the thread that watches."""
        return self._agreement is not None and self._agreement.look()

    def request(self, start: bool = False) -> None:
        """Ask, from any thread, that recording starts or finishes at the next chance."""
        if start:
            self._wants_start = True
        else:
            self._wants_finish = True

    def at_a_safe_point(self) -> None:
        """Called on the main thread between two bytecodes when a request has waited for a boundary in vain."""
        if self.switched_off or self._busy or self._thread not in (None, threading.get_ident()):
            return
        if self._wants_finish:
            self._busy = True
            try:
                self.finish()
            finally:
                self._busy = False
            self._stop_script()
        elif self._wants_start:
            self._wants_start = False
            self.start_whole()

    def finish(self) -> None:
        """End the recording and write it; torch is left as it was."""
        if self.over or self.switched_off:
            return
        self.over = True
        self.recording = False
        if self.recorder is not None:
            self.recorder.ranges.enabled = False
        if self.hooks is not None and (self.options.keep_running or self._stops):
            self.hooks.remove()
        if self.recorder is not None:
            try:
                self.recorder.finish()
            except Exception as error:
                self.problem = "the recording could not be finished: {}: {}".format(
                    type(error).__name__, error
                )
                self.status.say("problem", text=self.problem)

    def _stop_script(self) -> None:
        if self.options.keep_running:
            if self.hooks is not None:
                self.hooks.remove()
            return
        self.stopping_script = True
        self._stops += 1
        if self._stops == 1:
            self.status.say("stopping", text="the recording is complete: the script is stopped")
        raise SystemExit(0)

    def script_failed(self, error: str, traceback: str) -> None:
        """The script raised: its own traceback comes before anything said about the recording."""
        if not self.stopping_script:
            if isinstance(self.recorder, TrialRecorder):
                self.recorder.script_failed(error)
            self.status.say("failed", error=error[-500:], traceback=traceback[-2500:])

    def script_ended(self) -> None:
        """The script is at its end, in whatever way: write what there is and say what is missing."""
        if self.switched_off:
            return
        self._stops += 1
        self.finish()
        if self._agreement is not None:
            self._agreement.leave()
        if self.handed_over or (self.recorder is not None and self.recorder.recorded):
            self.status.say("done", files=self.written)
        elif not self.problem:
            reason, self.problem = self._why_nothing()
            self.status.say("problem", text=self.problem, reason=reason, steps=self._steps_made())

    def _why_nothing(self) -> tuple[str, str]:
        options = self.options
        if self.recorder is None:
            return "no-torch", "nothing recorded: the script never imported torch"
        if options.steps == "whole":
            return "too-late", "nothing recorded: the script ended before the recording began (--delay)"
        if self._started_at < 0:
            return "no-steps", NOTHING_FOUND
        if options.when_slow:
            return (
                "no-slow-step",
                "no step took {:g} times as long as usual, in {} steps. Nothing is recorded".format(
                    options.when_slow, self._steps_made()
                ),
            )
        if self.options.trial:
            return (
                "too-few-steps",
                "nothing could be tried: the script ended after {} steps. Let it run for a few hundred.".format(
                    self._steps_made()
                ),
            )
        return (
            "too-few-steps",
            "nothing recorded: the script ended after {} steps, and {} pass before the first recorded one. "
            "Lower --skip-first and --warmup, or let it run longer.".format(
                self._steps_made(), options.before_recording
            ),
        )

    def _steps_made(self) -> int:
        return max(self.finder.counts.get(self.finder.source, 0), self._started_at, 0)

    def switch_off(self) -> None:
        """In a forked child: no profiling, no ranges, no files."""
        self.switched_off = True
        if self.recorder is not None:
            self.recorder.ranges.enabled = False
        with contextlib.suppress(Exception):
            import sys

            import torch

            sys.setprofile(None)
            torch._C._autograd._enable_record_function(False)


def rank_of_this_process() -> int:
    """Global rank from what launchers set, -1 outside a distributed run."""
    return rank_in(os.environ)


def rank_in(environment: Mapping[str, str]) -> int:
    """The same of a process with this environment."""
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        value = environment.get(name, "")
        if value.isdigit() and (name != "SLURM_PROCID" or int(environment.get("SLURM_NTASKS", "1")) > 1):
            return int(value)
    return -1
