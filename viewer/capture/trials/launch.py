"""One launch of the program under the recorder that tries instead of recording."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from parsers.model.late import dataclass
from rules.trials.blocks import Block
from viewer.capture.output_stream import Event
from viewer.capture.recording import Outcome, Recording
from viewer.capture.request import CaptureProblem, CaptureRequest, TorchOptions, Window
from viewer.capture.storage import History
from viewer.capture.trials.account import Account, account_of

STEPS = ("auto", "optimizer", "dataloader", "backward", "forward", "region")
SKIP = 10  # steps at first that are timed in no block
ENDLESS = 1_000_000_000  # steps: a launch ends when everything is tried


@dataclass(frozen=True, slots=True)
class Order:
    """What one launch is to do, as ``stallscope_recorder.trials.recorder.Order`` reads it.

    ``candidates`` are names and weights, ``starts`` and ``changes`` are made from the beginning, ``rounds`` are of four
    blocks for each candidate and for the control, ``losses`` so many are kept. Where it ``compares``, time is left of
    the ``seconds`` for later launches that compare the losses of winners. ``known`` are the whole rounds of earlier
    launches, which this one continues.
    """

    candidates: tuple[tuple[str, float], ...] = ()
    starts: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    seconds: float = 60.0
    rounds: int = 3
    steps: int = 0
    losses: int = 0
    seed: bool = False
    skip: int = SKIP
    compares: bool = False
    known: tuple[Block, ...] = ()

    @property
    def text(self) -> str:
        """The value of the recorder's option."""
        return json.dumps(
            {
                "candidates": [
                    {"name": name, "weight": round(weight, 3)} for name, weight in self.candidates
                ],
                "starts": self.starts,
                "changes": self.changes,
                "seconds": self.seconds,
                "rounds": self.rounds,
                "steps": self.steps,
                "losses": self.losses,
                "seed": self.seed,
                "skip": self.skip,
                "compares": self.compares,
                "known": self._known,
            }
        )

    @property
    def _known(self) -> dict[str, list[tuple[str, float, float]]]:
        """Of each candidate the variants, seconds of a step, and elements of a batch."""
        found: dict[str, list[tuple[str, float, float]]] = {}
        for block in self.known:
            variant = "B" if block.changed else "A"
            step = (variant, round(block.ns / block.steps / 1e9, 9), block.elements / block.steps)
            found.setdefault(block.candidate, []).append(step)
        return found


@dataclass(frozen=True, slots=True)
class Launched:
    """How a launch ended and what it knows."""

    account: Account = field(default_factory=Account)
    outcome: Outcome | None = None

    @property
    def error(self) -> str:
        """The last line of the script's traceback, or how it ended otherwise; empty where all went well."""
        if self.outcome is None:
            return ""
        if self.outcome.traceback:
            return self.outcome.traceback.strip().splitlines()[-1]
        return self.outcome.problem if not self.account.ended and not self.account.losses else ""


def trial_request(request: CaptureRequest) -> CaptureRequest:
    """What of a recording a trial takes over: program, machine and what begins a step.

    Raises ``CaptureProblem`` for what is no Python program.
    """
    if not request.target.is_python:
        raise CaptureProblem(
            f"Changes are tried in Python programs, and {request.target.program} is not one.",
            "Name the script after its interpreter, as in: python train.py",
        )
    steps = request.window.steps if request.window.steps in STEPS else "auto"
    window = Window(steps=steps, region=request.window.region if steps == "region" else "")
    return CaptureRequest(target=request.target, window=window, on=request.on, setup=request.setup)


def first_recording(request: CaptureRequest, folder: Path) -> Recording:
    """Records five steps, which say what to try first."""
    return Recording(replace(request, out=str(folder / "recording")), history=History(folder / "runs"))


def runs_for_real(request: CaptureRequest) -> str:
    """What somebody has to know before a program is tried for the first time."""
    return (
        f"{request.target.program} runs for real, several times: it writes its usual files, checkpoints "
        "and tracker entries."
    )


def recorder_request(request: CaptureRequest, order: Order, out: Path) -> CaptureRequest:
    """The request that has the recorder carry out an order."""
    window = Window(
        steps=request.window.steps,
        region=request.window.region,
        skip_first=1,
        warmup=0,
        active=ENDLESS,
        phases=False,
    )
    return replace(request, window=window, torch=TorchOptions(), out=str(out), trial=order.text)


class Launcher:
    """Launches the program again and again; ``stop`` ends the launch that goes on and keeps what it knows."""

    def __init__(
        self,
        request: CaptureRequest,
        folder: Path,
        on_line: Callable[[Mapping[str, Any]], None],
        on_text: Callable[[str], None],
    ) -> None:
        self._request = request
        self._folder = folder
        self._on_line = on_line
        self._on_text = on_text
        self._count = 0
        self._recording: Recording | None = None
        self._stopped = False
        self.killed = False
        #: what the last launch took
        self.seconds = 0.0

    def is_stopped(self) -> bool:
        return self._stopped

    def launch(self, order: Order) -> Launched:
        """Run the program once; raises ``CaptureProblem`` where it cannot even start."""
        self._count += 1
        out = self._folder / str(self._count)
        recording = Recording(
            recorder_request(self._request, order, out),
            on_text=self._on_text,
            on_event=self._heard,
            history=History(self._folder / "runs"),
        )
        self._recording = recording
        if self._stopped:
            return Launched()
        began = time.monotonic()
        outcome = recording.run()
        self.seconds = time.monotonic() - began
        self.killed = self.killed or outcome.killed
        return Launched(account_of(outcome.recordings), outcome)

    def stop(self) -> None:
        """No further launches; the one that goes on ends at the next step."""
        self._stopped = True
        self.end_launch()

    def end_launch(self) -> None:
        """The launch that goes on ends at the next step and keeps what it knows."""
        if self._recording is not None:
            self._recording.finish_now()

    def kill(self) -> None:
        self._stopped = self.killed = True
        if self._recording is not None:
            self._recording.kill()

    def _heard(self, event: Event) -> None:
        if event.phase == "trying":
            self._on_line(event.values)
