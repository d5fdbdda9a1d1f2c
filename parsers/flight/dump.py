"""A dump of the flight recorder as data, from pickle or JSON, and what one entry of it states.

The fields are those of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp; the first versions of the layout call some
of them otherwise (``seq_id``, times in us). A time of 0 or None was not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import msgspec

from parsers.data_pickle import NotData, read_data
from parsers.files.base import Source
from parsers.files.decoders import UNREADABLE
from parsers.files.unpacking_limit import MAX_RATIO, UnpackingLimit, whole_content
from parsers.model import CollectiveState, Malformed, ProcessGroup, Progress, UnknownFormat
from parsers.model.arrays import MAX_NUMBER
from parsers.model.late import dataclass
from parsers.model.memory import Frame
from parsers.model.names.source_files import is_own_file

PICKLE = b"\x80"
HINT = "Torch writes a dump when TORCH_FR_BUFFER_SIZE is set. Copy the complete file again."
_MAX_PICKLE, _MAX_JSON = 256 << 20, 64 << 20  # bytes; 20,000 entries take 40 MB with stacks
_FREE, _MIN_BYTES = 20_000, 40  # entries, and what each takes where it is stated
_MAX_DIMENSIONS = 64
_MAX_TYPES, _MAX_TEXT_LENGTH = 8, 300
_STATES = {
    "scheduled": CollectiveState.SCHEDULED,
    "started": CollectiveState.STARTED,
    "completed": CollectiveState.COMPLETED,
}


@dataclass(slots=True)
class _Frames:
    """Makes one object of every frame that is stated over and over, while a pickle is read."""

    known: dict[Frame, Frame] = field(default_factory=dict)

    def begin(self, data: bytes, memo: list[Any], progress: Progress) -> None:
        pass

    def made(self, whole: dict[Any, Any]) -> Any:
        if len(whole) != 3 or "filename" not in whole or "line" not in whole:
            return whole
        frame = _frame(whole)
        return self.known.setdefault(frame, frame)

    def run(self, at: int) -> None:
        return None


def read_dump(source: Source, progress: Progress) -> Mapping[str, Any]:
    """The dump as the file states it. Raises ``TraceError`` where it is none, damaged, or more than data."""
    is_pickle = source.head.startswith(PICKLE)
    most = _MAX_PICKLE if is_pickle else _MAX_JSON
    data = whole_content(source, progress, "reading the dump", HINT, most)
    try:
        stated = read_data(data, progress, _Frames()) if is_pickle else msgspec.json.decode(data)
    except NotData as error:
        raise UnknownFormat(source.path, f"This pickle cannot be opened safely: {error}.", HINT) from error
    except UNREADABLE as error:
        raise Malformed(source.path, f"This dump cannot be read ({error}).", HINT) from error
    if not isinstance(stated, Mapping) or not isinstance(entries := stated.get("entries"), list):
        raise UnknownFormat(source.path, "This file contains no flight recorder entries.", HINT)
    least_bytes = _MIN_BYTES / (MAX_RATIO if source.compression else 1)
    UnpackingLimit(source).make("entries", len(entries), _FREE, least_bytes, 1 << 40)
    return stated


@dataclass(frozen=True, slots=True)
class Entry:
    """One collective or message as a rank called it; times are ns since 1970, ``completed`` 0 where nobody saw it."""

    name: str  # "all_reduce", "send"
    peers: str  # "0->1" of a message; empty for what all ranks of a group take part in
    group: tuple[str, str]  # its name and what the program calls it
    sequence: int
    created: int
    completed: int
    timeout_ns: int
    state: CollectiveState
    sent: int  # elements
    received: int
    dtypes: str
    called_from: str  # "train.py:21": the innermost line of the user's own code; empty where there is none

    @property
    def group_label(self) -> str:
        """ "default_pg (group 0)": what tells groups apart, and what the program calls this one."""
        name, description = self.group
        return f"{description} (group {name})" if description not in ("", "undefined") else f"group {name}"


@dataclass(slots=True)
class EntryReader:
    """Reads the entries of one dump; lists that many of them share are looked at once."""

    dump: Mapping[str, Any]  # kept alive: what is known of a list is known by its identity
    _elements: dict[int, int] = field(default_factory=dict)
    _places: dict[int, str] = field(default_factory=dict)

    def read(self, stated: Any) -> Entry | None:
        """What one entry states; None for what is no entry or has no time."""
        if not isinstance(stated, Mapping) or not (created := _time(stated, "time_created")):
            return None
        library, colon, called = _text(stated.get("profiling_name")).partition(":")
        name, _, peers = (called if colon else library).partition(" ")
        is_message = stated.get("is_p2p") is True
        sequence = stated.get("p2p_seq_id" if is_message else "collective_seq_id", stated.get("seq_id"))
        completed = _time(stated, "time_discovered_completed")
        done = completed or stated.get("retired") is True
        dtypes = _texts(stated.get("input_dtypes")) or _texts(stated.get("output_dtypes"))
        return Entry(
            name or "collective",
            peers or ("?" if is_message else ""),
            _group(stated),
            _number(sequence),
            created,
            completed,
            _number(stated.get("timeout_ms")) * 1_000_000,
            CollectiveState.COMPLETED
            if done
            else _STATES.get(_text(stated.get("state")), CollectiveState.SCHEDULED),
            self._elements_of(stated.get("input_sizes")),
            self._elements_of(stated.get("output_sizes")),
            ", ".join(dict.fromkeys(dtypes)),
            self._called_from(stated.get("frames")),
        )

    def _elements_of(self, shapes: Any) -> int:
        if not isinstance(shapes, list | tuple):
            return 0
        known = self._elements.get(id(shapes))
        if known is None:
            known = self._elements[id(shapes)] = min(sum(map(self._elements_of_shape, shapes)), MAX_NUMBER)
        return known

    def _elements_of_shape(self, shape: Any) -> int:
        if not isinstance(shape, list | tuple):
            return 0
        known = self._elements.get(id(shape))
        if known is None:
            known = 1
            for each in shape[:_MAX_DIMENSIONS]:
                known = min(known * _number(each), MAX_NUMBER)
            self._elements[id(shape)] = known
        return known

    def _called_from(self, frames: Any) -> str:
        if not isinstance(frames, list | tuple):
            return ""
        known = self._places.get(id(frames))
        if known is None:
            own = next((each for each in map(_frame, frames) if is_own_file(each.file)), None)
            known = self._places[id(frames)] = "" if own is None else f"{own.file}:{own.line}"
        return known


def groups_of(dump: Mapping[str, Any]) -> dict[str, ProcessGroup]:
    """The process groups whose ranks the dump states, by name."""
    stated = dump.get("pg_config")
    found = {}
    for name, each in stated.items() if isinstance(stated, Mapping) else ():
        if isinstance(each, Mapping) and (ranks := _ranks(each.get("ranks"))) and name:
            found[str(name)] = ProcessGroup(str(name), _text(each.get("desc")), ranks)
    return found


def shown(stated: Mapping[str, Any]) -> dict[str, Any]:
    """An entry for a reader: its stack as lines, everything else as it is stated."""
    frames = stated.get("frames")
    lines = [_frame(each) for each in frames] if isinstance(frames, list | tuple) else []
    return {
        **{str(key): value for key, value in stated.items() if key != "frames"},
        **({"stack": [f"{each.function} ({each.file}:{each.line})" for each in lines]} if lines else {}),
    }


def _ranks(stated: Any) -> tuple[int, ...]:
    """The ranks of "[0, 1, 2]"; none where the text is anything else."""
    try:
        ranks = msgspec.json.decode(stated, type=list[int]) if isinstance(stated, str) else []
    except (msgspec.MsgspecError, RecursionError):
        return ()
    return tuple(sorted({each for each in ranks if 0 <= each < MAX_NUMBER}))


def _group(stated: Mapping[str, Any]) -> tuple[str, str]:
    group = _texts(stated.get("process_group"))
    return (group[0], group[1]) if len(group) == 2 else (str(_number(stated.get("pg_id"))), "")


def _time(stated: Mapping[str, Any], key: str) -> int:
    """ns since 1970; 0 where it is not stated, or none that can be."""
    ns = _number(stated.get(f"{key}_ns")) or _number(stated.get(f"{key}_us")) * 1_000
    return ns if ns < MAX_NUMBER else 0


def _number(stated: Any) -> int:
    return stated if type(stated) is int and 0 <= stated < MAX_NUMBER else 0


def _text(stated: Any) -> str:
    return stated[:_MAX_TEXT_LENGTH] if isinstance(stated, str) else ""


def _texts(stated: Any) -> tuple[str, ...]:
    listed: Sequence[Any] = stated[:_MAX_TYPES] if isinstance(stated, list | tuple) else ()
    return tuple(_text(each) for each in listed if isinstance(each, str))


def _frame(stated: Any) -> Frame:
    if isinstance(stated, Frame):
        return stated
    if not isinstance(stated, Mapping):
        return Frame("", "", 0)
    return Frame(_text(stated.get("name")), _text(stated.get("filename")), _number(stated.get("line")))
