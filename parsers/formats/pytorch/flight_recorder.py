"""Dumps of PyTorch's flight recorder: which collective each rank called last, from where, and whether it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from parsers.files.base import Accompanying, Source, parser
from parsers.files.source import identify
from parsers.model.attributes import Attribute, CollectiveState
from parsers.model.builder import MIN_GAP_NS, TraceBuilder
from parsers.model.errors import Malformed, TraceError
from parsers.model.lanes import EventKind, Lane, LaneKind, ProcessGroup, Rank
from parsers.model.late import dataclass, regex
from parsers.model.names.collectives import UNFINISHED
from parsers.model.progress import Progress
from parsers.model.quality import Effect
from parsers.model.trace import ArgumentSource, Trace
from parsers.ranks.rank_choice import rank_in_name

if TYPE_CHECKING:
    from parsers.flight.dump import Entry

_PICKLE = regex(rb"\x80[\x02-\x05]")
_KEYS = regex(rb"pg_config|pg_status|nccl_version|comm_lib_version")
_ENTRY_KEYS = regex(rb"profiling_name|time_created_|entries")
_JSON_START = regex(
    rb'\s*\{\s*"(comm_lib_version|entries|nccl_comm_state|nccl_version|pg_config|pg_status)"\s*:'
)
_AT_ITS_END = regex(r"(\d{1,6})$")
_AT_ONCE = 4_000  # entries between two looks at the progress
DEFAULT_GROUP = "default_pg"


@parser
class FlightRecorder(Accompanying):
    """Recognised by the keys of a dump, in a pickle or in JSON."""

    format = "flight-recorder"
    title = "PyTorch flight recorder"
    files = "dumps of NCCL and gloo (nccl_trace_rank_N), as pickle or JSON"
    suffixes = (".pickle", ".pkl", ".json")
    priority = 28  # before other pickles

    def recognises(self, source: Source) -> bool:
        if _PICKLE.match(source.head):
            return _KEYS.search(source.head) is not None and _ENTRY_KEYS.search(source.head) is not None
        return _JSON_START.match(source.head) is not None

    def argument_source(self, source: Source) -> ArgumentSource:
        return _EntryArguments(source)

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.flight.dump import HINT, EntryReader, groups_of, read_dump

        dump = read_dump(source, progress.part(0.0, 0.5))
        reader, stated = EntryReader(dump), dump["entries"]
        rows: list[int] = []
        entries: list[Entry] = []
        for row, each in enumerate(stated):
            if row % _AT_ONCE == 0:
                progress.step(0.5 + 0.4 * row / len(stated), "reading the entries")
            if (entry := reader.read(each)) is not None:
                rows.append(row)
                entries.append(entry)
        if not entries:
            raise Malformed(
                source.path,
                "This dump contains no collectives: none had been called when it was written.",
                HINT,
            )
        rank, groups = _rank(source), groups_of(dump)
        builder = TraceBuilder(epoch_ns=0)
        builder.quality.read(len(stated))
        builder.quality.note(
            "damaged", Effect.QUARANTINED, "entries without a time", "", len(stated) - len(entries)
        )
        builder.came_from(
            source.name, self.format, "PyTorch flight recorder", rank, arguments=self.argument_source(source)
        )
        builder.ranks += [] if rank is None else [_rank_with(rank, entries, groups)]
        _add(builder, entries, rows, rank, source.path.stat().st_mtime_ns)
        return builder.build(progress.part(0.9, 1.0))


def _rank(source: Source) -> int | None:
    """The rank that the file's name states, as torch names dumps: a prefix and the rank; dumps do not state it."""
    stem = PurePath(source.name).name.split(".")[0]
    found = _AT_ITS_END.search(stem)
    named = rank_in_name(source.name)
    return named if named is not None else int(found[1]) if found else None


def _rank_with(rank: int, entries: Sequence[Entry], groups: Mapping[str, ProcessGroup]) -> Rank:
    """The rank with the groups that its dump states, called as its lanes are."""
    labels = {each.group[0]: each.group_label for each in entries}
    whole = next((groups.get(each.group[0]) for each in entries if each.group[1] == DEFAULT_GROUP), None)
    return Rank(
        rank,
        len(whole.ranks) if whole else None,
        groups=tuple(replace(each, name=labels.get(name, name)) for name, each in groups.items()),
    )


def _add(
    builder: TraceBuilder, entries: Sequence[Entry], rows: Sequence[int], rank: int | None, written: int
) -> None:
    """One event for each entry, on a lane for each process group.

    What ended unseen has no length. What did not end goes on until its time-out, or until the file was ``written``.
    """
    finished = np.array([each.state is CollectiveState.COMPLETED for each in entries], bool)
    start = np.array([each.created for each in entries], np.int64)
    end = np.maximum([each.completed for each in entries], start)
    last = int(end.max())
    given_up = start + np.minimum([each.timeout_ns for each in entries], MIN_GAP_NS)
    until = np.maximum(given_up if written < last else np.minimum(given_up, written), last)
    lanes = [builder.lane(Lane(LaneKind.FLIGHT_RECORDER, each.group_label, rank)) for each in entries]
    names = [
        builder.string(each.name if done else f"{each.name}{UNFINISHED}")
        for each, done in zip(entries, finished.tolist(), strict=True)
    ]
    events = builder.add(
        start,
        np.where(finished, end, until),
        np.array(names, np.int32),
        np.array(lanes, np.int32),
        EventKind.OTHER,
        np.array(rows, np.int64),
    )
    for number in (
        (Attribute.COLLECTIVE_SEQUENCE, [each.sequence for each in entries]),
        (Attribute.COLLECTIVE_STATE, [each.state.value for each in entries]),
        (Attribute.SENT_ELEMENTS, [each.sent for each in entries]),
        (Attribute.RECEIVED_ELEMENTS, [each.received for each in entries]),
    ):
        builder.attribute(number[0], events, np.array(number[1], np.int64))
    for text in (
        (Attribute.COLLECTIVE, [each.name for each in entries]),
        (Attribute.GROUP, [each.group_label for each in entries]),
        (Attribute.MESSAGE_DTYPE, [each.dtypes for each in entries]),
        (Attribute.CALLED_FROM, [each.called_from for each in entries]),
        (Attribute.PEERS, [each.peers for each in entries]),
    ):
        builder.attribute(text[0], events, np.array(list(map(builder.string, text[1])), np.int64))


@dataclass(slots=True)
class _EntryArguments:
    """Finds an entry again by its number; empty once the file is gone or another one."""

    source: Source
    _entries: Sequence[Any] | None = field(default=None, repr=False)

    def arguments(self, source_row: int) -> Mapping[str, Any]:
        from parsers.flight.dump import read_dump, shown

        if self._entries is None:
            try:
                self._entries = read_dump(identify(self.source.path), Progress())["entries"]
            except (TraceError, OSError):
                self._entries = ()
        inside = 0 <= source_row < len(self._entries)
        entry = self._entries[source_row] if inside else {}
        return shown(entry) if isinstance(entry, Mapping) else {}
