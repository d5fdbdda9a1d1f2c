"""The steps of a run: iterations of training or requests of inference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration of one rank; ``steady`` is False for warm-up and other steps that do not represent the run.

    ``found_by`` says how it was found: "ProfilerStep", "region", "repetition" or "window" (no steps: the whole run).
    """

    name: str
    rank: int | None
    start: int
    end: int
    steady: bool = True
    found_by: str = "ProfilerStep"
    event: int = -1
