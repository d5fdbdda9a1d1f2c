"""Readings of several GPUs as they come line by line, and the counters they make."""

from __future__ import annotations

from array import array
from dataclasses import field

import numpy as np

from parsers.model import Counter, Effect, Excessive, QualityRecorder
from parsers.model.counters import MAX_READ
from parsers.model.late import dataclass
from parsers.smi.columns import Quantity

MAX_SERIES = 20_000
_WORDS = {"active": 1.0, "not active": 0.0, "enabled": 1.0, "disabled": 0.0, "yes": 1.0, "no": 0.0}


def number(text: str) -> float | None:
    """The number in a cell such as "97.5 W", "0x4" or "Active"; None for "N/A", "-" and other words."""
    cell = text.strip()
    head = cell.split(" ", 1)[0]
    try:
        value = float(int(head, 16)) if head[:2].lower() == "0x" else float(head)
    except ValueError:
        return _WORDS.get(cell.lower())
    except OverflowError:
        return None
    return value if abs(value) < MAX_READ else None


@dataclass(slots=True)
class _Series:
    quantity: Quantity
    time: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class Readings:
    """Collects numbers by GPU and column; times are ns on the log's own clock."""

    lines: int = 0
    unreadable: int = 0
    example: str = ""
    _series: dict[tuple[int, str], _Series] = field(default_factory=dict)

    def add(self, gpu: int, column: str, quantity: Quantity, time: int, cell: str) -> None:
        """Keep one cell, when it is a number."""
        value = number(cell)
        if value is None:
            return
        series = self._series.get((gpu, column))
        if series is None:
            if len(self._series) >= MAX_SERIES:
                raise Excessive("readings by GPU and column", MAX_SERIES)
            series = self._series[gpu, column] = _Series(quantity)
        series.time.append(time)
        series.value.append(value * quantity.factor)

    def unusable(self, line: str, place: int) -> None:
        self.unreadable += 1
        self.example = self.example or f"line {place}: {line.strip()[:120]}"

    def account(self, quality: QualityRecorder, left_out: str) -> None:
        """State how many lines were read, and why the others were ``left_out``."""
        quality.read(self.lines + self.unreadable)
        quality.keep(self.lines)
        quality.note("unreadable line", Effect.QUARANTINED, left_out, self.example, self.unreadable)

    def counters(self, device: str = "GPU") -> list[Counter]:
        """One counter for each GPU and column, sorted by time; columns read at the same moments share their times."""
        made: list[Counter] = []
        shared: dict[bytes, np.ndarray] = {}
        for (gpu, _), series in sorted(self._series.items(), key=lambda each: each[0][0]):
            time = np.array(series.time, np.int64)
            value = np.array(series.value, np.float64)
            if np.any(np.diff(time) < 0):
                order = np.argsort(time, kind="stable")
                time, value = time[order], value[order]
            time = shared.setdefault(time.tobytes(), time)
            made.append(Counter(f"{device} {gpu} {series.quantity.name}", series.quantity.unit, time, value))
        return made
