"""Times the blocks of a schedule by counting steps: settles, reads the clock at both ends, and has ranks agree."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .schedule import (
    BLOCKS_A_ROUND,
    COMPILING,
    CONTROL,
    MIN_ROUNDS,
    TOGETHER_SHARE,
    Block,
    Candidate,
    Names,
    Schedule,
    Timed,
    planned_limit,
)

WARM_STEPS = 4
"""Timed before the first block, to know how long a step is."""
USUAL_STEPS = 8
MIN_STEPS = 2
SLOW_STEP = 1.0
"""Seconds: one such step is a block long enough."""
MAX_STEPS = 128
MIN_BLOCK = 0.1
"""Seconds: a shorter block of quick steps is lost among the interruptions of a usual system."""
TURNS = 4
"""In a block, of the workers of a loader: their batches come in bursts."""
LOSSES = 20
"""Steps from the start; what a change does to the result shows in the first of them."""
ENDING = 2.0
"""Seconds in which a launch that compared losses is over, and the next one begins."""
CHANGES = 6
"""From A to B or back in the first rounds of a candidate and before the next."""
ELSEWHERE = "it failed on another rank"


class Machine:
    """What the driver needs of the process; the clock is read after everything issued has been done."""

    def seconds(self) -> float:
        """A clock that never goes back, after a synchronisation."""
        raise NotImplementedError

    def turn(self, changes: Names) -> str:
        """Have exactly these changes made; a line about why not."""
        raise NotImplementedError

    def settle(self, changes: Names) -> int:
        """Steps left alone after the change to these."""
        raise NotImplementedError

    def elements(self) -> int:
        raise NotImplementedError

    def forget_peak(self) -> None:
        """The peak of memory is that of what follows."""
        raise NotImplementedError

    def peak_bytes(self) -> Optional[int]:
        """The most memory that was allocated since; ``None`` where nobody counts."""
        raise NotImplementedError

    def exchange(self, values: List[float]) -> List[List[float]]:
        """The values of every rank, this one's among them, in the same order on all."""
        return [values]


class Limits(NamedTuple):
    """Seconds of measuring, steps left alone at first, rounds a candidate, and steps a block (0: by time).

    ``known`` are the whole rounds that earlier launches timed, ``warm`` the steps that tell how long one is, ``turn``
    those for which every worker of a loader makes one batch. ``start`` is how long the program took to get here: as
    long as each launch that follows to compare losses; 0 where none does.
    """

    seconds: float
    skip: int
    rounds: int
    steps: int = 0
    known: "Optional[Dict[str, List[Tuple[str, Timed]]]]" = None
    warm: int = WARM_STEPS
    turn: int = 0
    start: float = 0.0

    def launch(self, step: float) -> float:
        """Seconds of a launch that compares losses, with steps of so many."""
        return self.start + LOSSES * step + ENDING if self.start else 0.0

    def within(self, share: float, step: float) -> "Limits":
        """The same for steps of so many seconds, with no more than a share of the time to skip, or to warm up."""
        most = int(share * self.seconds / max(step, 1e-9))
        return self._replace(
            skip=min(self.skip, max(most, MIN_STEPS)), warm=min(self.warm, max(most, MIN_STEPS))
        )


class Driver:
    """``boundary`` is called where a step begins; ``over`` says that nothing is left to be timed.

    ``write`` is given a dictionary for each thing that happened.
    """

    def __init__(
        self,
        machine: Machine,
        candidates: List[Candidate],
        limits: Limits,
        write: Callable[[Dict[str, Any]], None],
    ) -> None:
        self._machine = machine
        self._limits = limits
        self._write = write
        self._candidates = candidates
        self._spent = 0.0
        self._failure = ""
        self._block: Optional[Block] = None
        self._schedule: Optional[Schedule] = None
        self._steps = 0
        self._untimed = limits.skip
        self._timed = limits.warm
        self._began = 0.0
        self._turned = 0.0
        self._settling = 0.0
        self._usual_settling = 0.0
        self._step = 0.0
        self._elements = 0
        self._first = 0.0
        self._agreed: Optional[Names] = ()
        self._seen = 0
        self.over = False

    def boundary(self) -> None:
        """A step ends here and the next begins."""
        if self.over:
            return
        self._seen += 1
        self._advance()

    def _advance(self) -> None:
        if self._untimed > 0:
            self._untimed -= 1
            return
        if self._timed == self._of_block:
            self._begin_timing()
        if self._timed > 0:
            self._timed -= 1
            return
        self._end_block()

    @property
    def _of_block(self) -> int:
        return self._steps or self._limits.warm

    def failed(self, reason: str) -> None:
        """What is being tried failed: it is taken back here, and passed over by all ranks from the end of its block."""
        self._failure = self._failure or reason or "it failed"
        self._machine.turn(())

    def script_failed(self, reason: str) -> None:
        """The script itself ended with an error, maybe because of what is being tried."""
        if self._block is not None and self._block.variant == "B" and not self.over and self._block.changes:
            self._refuse(self._block, reason)
        self.finish("failed")

    def finish(self, reason: str) -> None:
        """No more blocks; everything is taken back."""
        if self.over:
            return
        self.over = True
        self._machine.turn(())
        together = self._schedule.together if self._schedule is not None else ()
        unfinished = self._block.candidate if self._block is not None else CONTROL
        self._write(
            {
                "kind": "end",
                "reason": reason,
                "together": list(together),
                "steps": self._seen,
                "unfinished": unfinished,
            }
        )

    def _begin_timing(self) -> None:
        self._elements = self._machine.elements()
        self._machine.forget_peak()
        self._began = self._machine.seconds()
        if self._turned:
            self._settling = max(self._began - self._turned - self._usual_settling, 0.0)
            self._turned = 0.0

    def _end_block(self) -> None:
        machine, steps = self._machine, self._of_block
        now = machine.seconds()
        elements = machine.elements() - self._elements
        mine = (now - self._began) / steps
        spent = now - self._first if self._schedule is not None else 0.0
        told = machine.exchange([mine, float(elements), spent, 1.0 if self._failure else 0.0])
        slowest = max(each[0] for each in told)
        self._spent = max(each[2] for each in told)
        failed = any(each[3] for each in told)
        timed = Timed(slowest, sum(each[1] for each in told) / steps)
        if self._block is None:
            self._know_steps(slowest)
            self._go_on(None)
            return
        block = self._block
        if failed:
            self._refuse(block, self._failure or ELSEWHERE)
            self._failure, self._agreed = "", None
            self._go_on(None)
            return
        self._write(
            {
                "kind": "block",
                "candidate": block.candidate,
                "variant": block.variant,
                "changes": list(block.changes),
                "steps": steps,
                "ns": round(mine * steps * 1e9),
                "slowest_ns": round(slowest * steps * 1e9),
                "elements": elements,
                "peak_bytes": machine.peak_bytes(),
                "settle_ns": round(self._settling * 1e9),
                "spent_s": round(self._spent, 3),
            }
        )
        self._settling = 0.0
        self._go_on(timed)

    def _know_steps(self, step: float) -> None:
        """How many steps a block has: as many as let every candidate have its first rounds within the limit."""
        limits = self._limits
        self._first, self._step = self._began, step
        self._spent = self._machine.seconds() - self._first
        joining = any(each.joins for each in self._candidates)
        mine = planned_limit(limits.seconds, limits.launch(step))
        mine *= 1 - TOGETHER_SHARE if joining else 1
        parts = len(self._candidates) + 2 + sum(COMPILING for each in self._candidates if each.compiles)
        fitting = mine / parts / max(step, 1e-9) - CHANGES * self._machine.settle(())
        usual = max(USUAL_STEPS, math.ceil(MIN_BLOCK / max(step, 1e-9)), TURNS * limits.turn)
        least = MIN_STEPS if step < SLOW_STEP else 1
        fitting /= MIN_ROUNDS * BLOCKS_A_ROUND
        fixed = limits.steps or max(least, min(usual, int(fitting), MAX_STEPS))
        told = self._machine.exchange([float(fixed), self._spent, limits.seconds, limits.launch(step)])
        self._steps = int(max(each[0] for each in told))
        self._spent = max(each[1] for each in told)
        seconds = min(each[2] for each in told)
        launch = max(each[3] for each in told)
        self._schedule = Schedule(
            self._candidates, seconds, lambda: self._spent, limits.rounds, limits.known, launch
        )
        self._write({"kind": "steps", "steps": self._steps, "step_ns": round(step * 1e9)})

    def _go_on(self, timed: Optional[Timed]) -> None:
        assert self._schedule is not None
        machine = self._machine
        while True:
            block = self._schedule.next(timed)
            if block is None:
                self.finish("time" if self._schedule.out_of_time else "complete")
                return
            settle = 0
            if block.changes != self._agreed:
                self._turned = machine.seconds()
                mine = machine.settle(block.changes)
                reason = machine.turn(block.changes)
                told = machine.exchange([1.0 if reason else 0.0, float(mine)])
                if any(each[0] for each in told):
                    machine.turn(())
                    self._agreed = ()
                    self._refuse(block, reason or ELSEWHERE)
                    timed = None
                    continue
                settle = int(max(each[1] for each in told))
                self._usual_settling = settle * self._step
            self._agreed = block.changes
            self._block = block
            self._untimed = settle
            self._timed = self._steps
            if settle:
                self._untimed -= 1
            else:
                self._advance()
            return

    def _refuse(self, block: Block, reason: str) -> None:
        self._write({"kind": "refused", "candidate": block.candidate, "reason": reason})
