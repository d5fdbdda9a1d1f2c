"""Several runs in their order, each against the first and against the one before, as rows and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from parsers.model.late import dataclass
from parsers.model.units import duration, three_digits
from rules.comparison.gate import Judgement, Outcome
from rules.gates.against_kept import judgement_on
from rules.gates.figures import RunFigures
from viewer.appearance.plain_text import one_line
from viewer.user_data.history import Entry

SIGNS = {
    Outcome.FASTER: "faster",
    Outcome.SLOWER: "slower",
    Outcome.NO_DIFFERENCE_SEEN: "no difference seen",
    Outcome.NOT_COMPARABLE: "not comparable",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the series: what it is called, its runs (repeats), and what was written about it."""

    name: str
    runs: tuple[RunFigures, ...]
    note: str = ""

    @property
    def step_ns(self) -> float:
        """Mean of all steady steps; 0 without any."""
        count = sum(len(run.step_ns) for run in self.runs)
        return sum(float(run.step_ns.sum()) for run in self.runs) / count if count else 0.0


def points_of(entries: Sequence[Entry]) -> list[Point]:
    """Kept runs by their revision, or by when they were kept."""
    return [
        Point(
            f"{datetime.fromtimestamp(entry.saved):%Y-%m-%d %H:%M} {entry.revision}".rstrip(),
            entry.runs,
            entry.reason,
        )
        for entry in entries
    ]


def spans(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Bounds of each mean step, ns, from the interval of its ratio to the first that has steps; the mean without."""
    first = next((number for number, point in enumerate(points) if point.step_ns), 0)
    found = []
    for number, point in enumerate(points):
        ratio = against(points, number, first).ratio if point.step_ns and number != first else None
        if ratio is None:
            found.append((point.step_ns, point.step_ns))
        else:
            found.append((point.step_ns * ratio.low / ratio.mean, point.step_ns * ratio.high / ratio.mean))
    return found


def against(points: Sequence[Point], number: int, earlier: int) -> Judgement:
    """How the step time of a point differs from that of an earlier one."""
    return judgement_on(points[earlier].runs, points[number].runs)


def bounds(judgement: Judgement) -> str:
    """ "97.1 to 103 %"; a dash where the two cannot be compared."""
    ratio = judgement.ratio
    if ratio is None or judgement.reason:
        return "-"
    if ratio.low == ratio.high:
        return f"{three_digits(ratio.low * 100)} %"
    return f"{three_digits(ratio.low * 100)} to {three_digits(ratio.high * 100)} %"


COLUMNS = ("run", "step, mean", "of the first", "against the one before", "why it was accepted")


def series_rows(points: Sequence[Point]) -> list[tuple[str, str, str, str, str]]:
    """The rows of a table with COLUMNS."""
    return [
        (
            one_line(point.name),
            duration(point.step_ns) if point.step_ns else "-",
            bounds(against(points, number, 0)),
            _said(against(points, number, number - 1)) if number else "",
            one_line(point.note),
        )
        for number, point in enumerate(points)
    ]


def _said(judgement: Judgement) -> str:
    """ "faster", "not comparable: other work"."""
    return ": ".join(filter(None, (SIGNS[judgement.outcome], judgement.reason)))


def series_json(points: Sequence[Point]) -> dict[str, Any]:
    """The runs with their outcomes; the bounds are those of the step time over the first and the one before."""
    return {
        "schema": 1,
        "runs": [
            {
                "name": point.name,
                "note": point.note or None,
                "files": [list(run.files) for run in point.runs],
                "step_ns": point.step_ns or None,
                "steps": sum(len(run.step_ns) for run in point.runs),
                "of_first": _judgement_json(against(points, number, 0)),
                "of_previous": _judgement_json(against(points, number, number - 1)) if number else None,
            }
            for number, point in enumerate(points)
        ],
    }


def _judgement_json(judgement: Judgement) -> dict[str, Any]:
    ratio = judgement.ratio
    known = ratio is not None and math.isfinite(ratio.low) and math.isfinite(ratio.high)
    return {
        "outcome": judgement.outcome.value,
        "not_comparable_because": judgement.reason or None,
        "low": ratio.low if ratio is not None and known else None,
        "high": ratio.high if ratio is not None and known else None,
    }
