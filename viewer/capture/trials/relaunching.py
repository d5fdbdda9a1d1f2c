"""How a trial goes on in another launch, where the script ends before everything is tried."""

from __future__ import annotations

import math

from parsers.model.late import dataclass
from viewer.capture.torch_runner.stallscope_recorder.trials.catalogue import SETTLE
from viewer.capture.torch_runner.stallscope_recorder.trials.driver import (
    MAX_STEPS,
    MIN_BLOCK,
    MIN_STEPS,
    WARM_STEPS,
)
from viewer.capture.torch_runner.stallscope_recorder.trials.recorder import LOOK
from viewer.capture.torch_runner.stallscope_recorder.trials.schedule import BLOCKS_A_ROUND
from viewer.capture.trials.launch import SKIP, Launched

SKIPPED_PART = 20  # of so many steps, one is left alone at first
QUICK_SETTLING = BLOCKS_A_ROUND * SETTLE
SLOW_SETTLING = QUICK_SETTLING + 6  # steps in a round; as many as compiling needs
MIN_SCRIPT = LOOK + WARM_STEPS + BLOCKS_A_ROUND * MIN_STEPS + QUICK_SETTLING


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in a block, and steps left alone at first."""

    steps: int
    skip: int


def ended_early(launched: Launched) -> bool:
    """Whether the script ran to its end without an error before everything was tried."""
    outcome = launched.outcome
    return (
        launched.account.ended == "stopped"
        and outcome is not None
        and not outcome.exit_code
        and not outcome.traceback
    )


def plan_of(seen: int, step_ns: float) -> Plan | None:
    """Blocks that fill ``seen`` steps with whole rounds; None where not even one fits."""
    skip = min(SKIP, seen // SKIPPED_PART)
    usable = seen - skip - WARM_STEPS
    enough = math.ceil(MIN_BLOCK * 1e9 / step_ns) if step_ns else MIN_STEPS
    least = max(MIN_STEPS, min(enough, MAX_STEPS))
    for settling in (SLOW_SETTLING, QUICK_SETTLING):
        rounds = max(usable // (BLOCKS_A_ROUND * least + settling), 1)
        steps = (usable // rounds - settling) // BLOCKS_A_ROUND
        if steps >= MIN_STEPS:
            return Plan(min(steps, MAX_STEPS), skip)
    return None


def too_few_steps(seen: int) -> str:
    """What to tell where a script is too short."""
    steps = seen + LOOK - 1
    return (
        f"The script runs only {steps} steps, too few to time a change. "
        f"Let it run at least {MIN_SCRIPT if steps < MIN_SCRIPT else 2 * steps}."
    )
