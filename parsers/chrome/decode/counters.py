"""Counter events ("C"): every series of every counter as samples over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from parsers.chrome.build.lanes import LaneMaker
from parsers.chrome.decode.collect import Columns
from parsers.chrome.decode.records import SAMPLE, SAMPLES, Event
from parsers.chrome.decode.stated import whole_number
from parsers.chrome.decode.times import INVALID, nanoseconds
from parsers.model import Counter

MOST_SERIES = 4096
_FAR_NS = 10**12


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
                if number is not None and (key in self.samples or len(self.samples) < MOST_SERIES):
                    self.samples[key].append((time, number))
        return useless

    def counters(self, maker: LaneMaker, span: tuple[int, int] | None) -> Iterator[Counter]:
        """One counter for each series; samples far outside of ``span`` (ns) are left out."""
        for (pid, name, series), samples in self.samples.items():
            near = [
                sample
                for sample in samples
                if span is None or span[0] - _FAR_NS < sample[0] < span[1] + _FAR_NS
            ]
            if not near:
                continue
            near.sort(key=lambda sample: sample[0])
            process = maker.names.processes.get(pid, "")
            title = name if series in ("value", name, "") else f"{name} {series}"
            device = maker.device(number) if (number := _device_of(process)) is not None else None
            yield Counter(
                title,
                "",
                np.array([time for time, _ in near], np.int64),
                np.array([value for _, value in near], np.float64),
                maker.rank,
                device,
            )


def _device_of(process: str) -> int | None:
    return whole_number(process.upper().removeprefix("GPU")) if process.upper().startswith("GPU") else None


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
