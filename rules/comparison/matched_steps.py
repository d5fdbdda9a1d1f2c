"""A step of one recording and a step of another, with their calls matched and put into rows."""

from __future__ import annotations

from parsers.model.lanes import GPU_WORK
from parsers.model.late import dataclass
from rules.analysis.steps.steps import Step
from rules.comparison.calls import Calls, Codes, calls_of
from rules.comparison.kernel_rows import KernelRows, kernel_rows
from rules.comparison.matching import Matched, match
from rules.comparison.side import Side


@dataclass(frozen=True, slots=True, eq=False)
class MatchedSteps:
    """``pairs`` and ``rows`` speak of places in ``calls``; ``texts`` are those of the calls' codes."""

    steps: tuple[Step | None, Step | None]
    calls: tuple[Calls, Calls]
    pairs: Matched
    rows: KernelRows
    texts: list[str]


def matched_steps(sides: tuple[Side, Side], steps: tuple[Step | None, Step | None]) -> MatchedSteps:
    """Match one step of each side; None stands for all that was analysed.

    A row holds what a mean step holds of its kernels.
    """
    codes = Codes()
    calls = calls_of(sides[0].analysis, steps[0], codes), calls_of(sides[1].analysis, steps[1], codes)
    pairs, texts = match(*calls), codes.texts()
    work = sides[0].work(*GPU_WORK), sides[1].work(*GPU_WORK)
    means = [{name: each for name, (_, each) in side.items()} for side in work]
    shown = {name: written for side in work for name, (written, _) in side.items()}
    return MatchedSteps(
        steps, calls, pairs, kernel_rows(calls, pairs, texts, (means[0], means[1]), shown), texts
    )
