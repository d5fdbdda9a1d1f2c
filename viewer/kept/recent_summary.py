"""What the list of recent files keeps of a diagnosed recording: words and a small picture, as numbers; no Qt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

COLUMNS = 64  # of the small picture
MOST_ROWS = 4
WHOLE = 100  # a column's parts add up to this, but for rounding

Row = Mapping[str, Sequence[int]]  # part of the budget -> percent of each column


@dataclass(frozen=True, slots=True)
class Summary:
    """``rows`` are devices, the idlest first; ``opened`` is seconds of wall clock time."""

    opened: float
    duration_ns: int
    device: str
    rows: tuple[Row, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        rows = [{key: list(values) for key, values in row.items()} for row in self.rows]
        return {"opened": self.opened, "duration_ns": self.duration_ns, "device": self.device, "rows": rows}

    @classmethod
    def from_data(cls, data: Any) -> Summary | None:
        """What ``to_data`` gave; None where it is something else."""
        try:
            rows = tuple(
                {str(key): tuple(int(value) for value in values[:COLUMNS]) for key, values in row.items()}
                for row in data["rows"][:MOST_ROWS]
            )
            return cls(float(data["opened"]), int(data["duration_ns"]), str(data["device"]), rows)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            return None


def when(opened: float, now: float) -> str:
    """How long ago, as people say it: "today 14:32", "yesterday", "3 days ago", "12 Mar 2026"."""
    try:
        then, today = datetime.fromtimestamp(opened), datetime.fromtimestamp(now)
    except (ValueError, OverflowError, OSError):
        return ""
    days = (today.date() - then.date()).days
    if days <= 0:
        return f"today {then:%H:%M}"
    if days == 1:
        return "yesterday"
    return f"{days} days ago" if days < 7 else f"{then.day} {then:%b %Y}"
