"""Counter events ("C"): every series of every counter as samples over time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from typing import Any

import msgspec
import numpy as np

from parsers.chrome.decode.collect import Columns
from parsers.chrome.decode.records import SAMPLE, SAMPLES, Event
from parsers.chrome.decode.times import INVALID, nanoseconds
from parsers.model.late import dataclass

MAX_SERIES = 4096


@dataclass(slots=True)
class Series:
    """Samples of every series, keyed by process, counter and series name."""

    samples: dict[tuple[Any, str, str], list[tuple[int, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, events: list[Event], arguments: list[Any]) -> int:
        """Counter events and their arguments, which have any names; returns how many hold nothing to show."""
        useless = 0
        for event, time, stated in zip(
            events, nanoseconds([event.ts for event in events]).tolist(), arguments, strict=True
        ):
            if time == INVALID or not isinstance(stated, dict):
                useless += 1
                continue
            name = event.name if event.id is None else f"{event.name} {event.id}"
            for series, value in stated.items():
                number = _number(value)
                key = (event.pid, name, series)
                if number is not None and (key in self.samples or len(self.samples) < MAX_SERIES):
                    self.samples[key].append((time, number))
        return useless


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None


def take_counters(columns: Columns, series: Series, texts: list[bytes], first_row: int) -> None:
    """Move the counter events of one chunk into ``series``; ``texts`` is the JSON of its events."""
    if not columns.counter_rows:
        return
    events = [event for _, event in columns.counter_rows]
    mine = [texts[row - first_row] for row, _ in columns.counter_rows]
    columns.counter_rows.clear()
    try:
        arguments = [sample.args for sample in SAMPLES.decode(b"[" + b",".join(mine) + b"]")]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        arguments = [_arguments(text) for text in mine]
    if useless := series.add(events, arguments):
        columns.ignored["C"] += useless


def _arguments(text: bytes) -> Any:
    try:
        return SAMPLE.decode(text).args
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
