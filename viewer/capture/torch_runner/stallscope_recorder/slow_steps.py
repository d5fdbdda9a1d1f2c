"""Records only when a step is slow: waits beside the program, and keeps what follows a step far longer than usual."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections import deque
from statistics import median
from typing import Callable, Deque, List, Optional

from .options import Options
from .recorders import TorchRecorder

KNOWN_STEPS = 200
"""What is usual is the median of so many steps."""
MIN_KNOWN = 20
DEVIATIONS = 6.0
"""So many standard deviations (from the median absolute deviation) above the median, beside the factor."""
NORMAL_MAD = 1.4826
USUAL_PART = 0.9
"""Of the known steps: what a tenth of them takes, as every fourth does under accumulation, is usual as well."""
USUAL_AGAIN = 20
"""Usual steps in a row after which a slow one is another incident."""
UNSETTLED = 3
"""Steps after a recording that are not timed: writing the file holds the program up."""
HOUR = 3600.0


class SlowSteps:
    """Tells which steps begin an incident: slow ones after usual ones, at most ``most`` an hour."""

    def __init__(self, factor: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._factor = factor
        self._most = most
        self._clock = clock
        self._known: Deque[float] = deque()
        self._in_order: List[float] = []  # the same, kept sorted: every step is held against it
        self._usual_in_a_row = USUAL_AGAIN
        self._begun: Deque[float] = deque(maxlen=max(most, 1))

    @property
    def usual(self) -> float:
        """What a step takes, in seconds; 0 while none is known."""
        return median(self._in_order) if self._in_order else 0.0

    def begins_incident(self, seconds: float) -> bool:
        """Whether a step of so many seconds is to be recorded; it then counts as usual for later ones."""
        slow = self._is_slow(seconds)
        self._remember(seconds)
        if not slow:
            self._usual_in_a_row += 1
            return False
        first, self._usual_in_a_row = self._usual_in_a_row >= USUAL_AGAIN, 0
        now = self._clock()
        full = len(self._begun) == self._most and now - self._begun[0] < HOUR
        if not first or full:
            return False
        self._begun.append(now)
        return True

    def _remember(self, seconds: float) -> None:
        if len(self._known) == KNOWN_STEPS:
            del self._in_order[bisect_left(self._in_order, self._known.popleft())]
        self._known.append(seconds)
        insort(self._in_order, seconds)

    def _is_slow(self, seconds: float) -> bool:
        known = self._in_order
        if len(known) < MIN_KNOWN or seconds <= self._factor * known[int(USUAL_PART * (len(known) - 1))]:
            return False
        usual = self.usual
        deviation = NORMAL_MAD * median([abs(each - usual) for each in known])
        return seconds > usual + DEVIATIONS * deviation


class SlowStepRecorder(TorchRecorder):
    """The PyTorch profiler, which runs only after a slow step; each incident becomes one file."""

    def __init__(self, options: Options, rank: int, say: Callable[..., None]) -> None:
        once = options._replace(skip_first=0, wait=0, warmup=1, repeat=1)
        super().__init__(once, rank, say)
        self._skip = options.skip_first
        self._slow = SlowSteps(options.when_slow, options.incidents)
        self._steps = 0
        self._untimed = 1
        self._since = 0.0
        self._files = 0

    def start(self, steps_already: Optional[int]) -> None:
        self.ranges.enabled = False
        self._steps = steps_already or 0

    def step(self) -> None:
        now, self._steps = time.perf_counter(), self._steps + 1
        if self._profiler is not None:
            super().step()
            if len(self.written) > self._files:
                super().finish()
                self._untimed = UNSETTLED
            return
        seconds, self._since = now - self._since, now
        if self._untimed or self._steps <= self._skip:
            self._untimed = max(self._untimed - 1, 0)
        elif self._slow.begins_incident(seconds):
            self._record(seconds)

    def _record(self, seconds: float) -> None:
        self._files = len(self.written)
        self._say(
            "incident",
            step_number=self._steps,
            text="step {} took {}, usually {}".format(
                self._steps, _duration(seconds), _duration(self._slow.usual)
            ),
        )
        super().start(0)


def _duration(seconds: float) -> str:
    return "{:.3g} s".format(seconds) if seconds >= 1 else "{:.3g} ms".format(1e3 * seconds)
