"""Names that say by themselves that a range is one step of a run: a word for a step, and its number."""

from __future__ import annotations

import re

_STEP = re.compile(
    r"^(?:ProfilerStep#|(?:(?:train|training|global|optim|optimizer|eval|inference|generation)[ _:.\-]*)?"
    r"(?:step|iter|iteration)[ _#:.\-=(\[]*)(\d{1,18})[)\]]?$",
    re.IGNORECASE,
)


def step_number(name: str) -> int | None:
    """5 for "step_5", "Iteration 5", "train_step 5" or "ProfilerStep#5"; None for any other name."""
    match = _STEP.match(name.strip())
    return int(match[1]) if match else None
