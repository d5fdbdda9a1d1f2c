"""The joined columns of a file, without the events whose times cannot be."""

from __future__ import annotations

import numpy as np

from parsers.chrome.build.device_clock import move_device_clock
from parsers.chrome.decode.collect import Columns
from parsers.chrome.decode.times import FARTHEST_NS, INVALID
from parsers.model import BOOL, GPU_WORK, I32, I64, U8, Array, Attribute, Effect, QualityRecorder
from parsers.model.builder import longest_plausible, main_cluster
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.quality import GPU_WITHOUT_TIMES
from parsers.model.threads import side_by_side

_COLUMNS: dict[str, type[np.generic]] = {
    "start": np.int64,
    "duration": np.int64,
    "good": np.bool_,
    "name": np.int32,
    "track": np.int32,
    "row": np.int64,
}
MAX_NS = 10 * 365 * 86_400 * 1_000_000_000


@dataclass(slots=True)
class Table:
    """Columns of equal length, and the sparse attributes by place in them."""

    start: I64
    duration: I64
    name: I32
    track: I32
    kind: U8
    row: I64
    attributes: dict[Attribute, tuple[I64, I64]]  # places and values
    call_sizes: tuple[I64, I64]

    @property
    def span(self) -> tuple[int, int] | None:
        """First start and last start (ns)."""
        return (int(self.start.min()), int(self.start.max())) if len(self.start) else None


def usable_events(columns: Columns, strings: list[str], quality: QualityRecorder) -> Table:
    """Join the gathered parts (which are given up) and quarantine what cannot be shown."""
    parts = columns.parts
    start, duration, good, name, track, row = side_by_side(
        lambda column: _joined([getattr(part, column) for part in parts], _COLUMNS[column]),
        _COLUMNS,
        columns.count,
    )
    kind = np.repeat(
        np.array([part.kind for part in parts], np.uint8),
        np.array([len(part.start) for part in parts], np.int64),
    )
    parts.clear()
    attributes = columns.stated.joined()
    columns.stated.attributes.clear()
    if Attribute.CORRELATION in attributes:
        events, correlation = attributes[Attribute.CORRELATION]
        timed = start[events] != INVALID
        move_device_clock(start, kind, events[timed], correlation[timed], quality)
    table = Table(start, duration, name, track, kind, row, attributes, _pairs(columns.stated.call_sizes))
    return _without_impossible(table, good, strings, quality)


def _without_impossible(table: Table, good: BOOL, strings: list[str], quality: QualityRecorder) -> Table:
    start, duration = table.start, table.duration
    verdict = _judge(start, duration, good, of_kinds(table.kind, *GPU_WORK))
    bad = np.zeros(len(start), bool)
    for reason, mask, sentence in (
        ("no-time", verdict.no_time, "an event without a usable time"),
        (
            "no-duration",
            verdict.no_duration,
            "an event whose duration is missing, negative or impossibly long",
        ),
        (
            GPU_WITHOUT_TIMES,
            verdict.gpu_without_times,
            "a GPU activity that the profiler recorded without a time",
        ),
        ("far-away", verdict.far_away, "an event far away in time from all others"),
    ):
        if mask.any():
            first = int(np.flatnonzero(mask)[0])
            when = "no start" if start[first] == INVALID else f"start {start[first]} ns"
            example = f"{strings[table.name[first]][:80]}: {when}, duration {duration[first]} ns"
            quality.note(reason, Effect.QUARANTINED, sentence, example, int(mask.sum()))
            bad |= mask
    if not bad.any():
        return table
    kept = np.flatnonzero(~bad)
    places = np.full(len(start), -1, np.int64)
    places[kept] = np.arange(len(kept))
    return Table(
        start[kept],
        duration[kept],
        table.name[kept],
        table.track[kept],
        table.kind[kept],
        table.row[kept],
        {which: _moved(places, *stated) for which, stated in table.attributes.items()},
        _moved(places, *table.call_sizes),
    )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Which events cannot be shown, by reason."""

    no_time: BOOL
    no_duration: BOOL  # not a number, negative, or longer than any recording
    gpu_without_times: BOOL  # all of the GPU's, and none of the CPU's
    far_away: BOOL


def _judge(start: I64, duration: I64, good: BOOL, of_gpu: BOOL) -> _Verdict:
    """Sort out events by their times (ns)."""
    no_time = (start == INVALID) | (np.abs(start) >= FARTHEST_NS)
    no_duration = ~no_time & (~good | (duration < 0) | (duration > MAX_NS))
    usable = ~(no_time | no_duration)
    far_away = np.zeros(len(start), bool)
    gpu_without_times = np.zeros(len(start), bool)
    if usable.any():
        blank = (start == 0) & (duration == 0)
        telling = usable & ~blank if (usable & ~blank).any() else usable
        first, last = main_cluster(start[telling])
        far_away = usable & ((start < first) | (start > last))
        no_duration |= usable & (duration > longest_plausible(first, last))
        far_away &= ~no_duration
        if of_gpu.any() and blank[of_gpu].all():
            unset = far_away & blank
            gpu_without_times, no_time = unset & of_gpu, no_time | (unset & ~of_gpu)
            far_away &= ~unset
    return _Verdict(no_time, no_duration, gpu_without_times, far_away)


def _moved(places: I64, events: I64, values: I64) -> tuple[I64, I64]:
    here = places[events] >= 0
    return places[events[here]], values[here]


def _joined(parts: list[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _pairs(parts: list[tuple[I64, I64]]) -> tuple[I64, I64]:
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    events, values = (np.concatenate(side) for side in zip(*parts, strict=True))
    return events, values
