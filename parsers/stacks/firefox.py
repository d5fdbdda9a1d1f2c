"""Firefox Profiler's tables as columns: of its own format, and of that which the browser and other recorders write.

The layouts are those of ``processed-profile-format.md`` and ``gecko-profile-format.md`` in its repository.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from parsers.model import F64, I32, I64
from parsers.model.arrays import per_value
from parsers.model.late import dataclass
from parsers.stacks.timeline import MAX_DEPTH

_NONE = -1
_MAX_FRAMES = 8_000_000  # of all stacks of a file
_MAX_FOLLOWED = 8 * MAX_DEPTH  # callers of one stack
_LARGEST = 1 << 31
Number = float | int | None


class Table(msgspec.Struct, gc=False):
    """A table: columns by their names, or rows in ``data`` with a ``schema`` that tells the place of each column."""

    schema: dict[str, int] = {}
    data: list[list[Any]] = []
    stack: list[Number] = []
    time: list[Number] = []
    timeDeltas: list[Number] = []  # noqa: N815 - as the file calls it
    frame: list[Number] = []
    prefix: list[Number] = []
    func: list[Number] = []
    line: list[Number] = []
    location: list[Number] = []
    name: list[Number] = []
    fileName: list[Number] = []  # noqa: N815
    source: list[Number] = []
    filename: list[Number] = []
    resource: list[Number] = []

    def integers(self, name: str) -> I64:
        """A column of indices; -1 where there is none."""
        values = self._column(name)
        return np.array([_index(value) for value in values], np.int64)

    def numbers(self, name: str) -> F64:
        """A column of numbers; NaN where there is none."""
        return np.array([_number(value) for value in self._column(name)], np.float64)

    def _column(self, name: str) -> Sequence[Any]:
        place = self.schema.get(name)
        if place is not None and place >= 0:
            return [row[place] if place < len(row) else None for row in self.data]
        found: Sequence[Any] = getattr(self, name)
        return found


class _Strings(msgspec.Struct):
    """As Firefox's own page saved its string tables in 2016."""

    strings: list[str] = msgspec.field(default_factory=list, name="_array")


class Tables(msgspec.Struct):
    """What a thread has, or all threads share."""

    stackTable: Table | None = None  # noqa: N815
    frameTable: Table | None = None  # noqa: N815
    funcTable: Table | None = None  # noqa: N815
    resourceTable: Table | None = None  # noqa: N815
    sources: Table | None = None
    stringArray: list[str] | None = None  # noqa: N815
    stringTable: list[str] | _Strings | None = None  # noqa: N815

    @property
    def strings(self) -> list[str] | None:
        if self.stringArray is not None:
            return self.stringArray
        return self.stringTable.strings if isinstance(self.stringTable, _Strings) else self.stringTable


class Thread(Tables):
    """One thread with its samples."""

    name: str = ""
    processName: str | None = None  # noqa: N815
    pid: str | int | None = None
    tid: str | int | None = None
    samples: Table = msgspec.field(default_factory=Table)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """How a frame is called, where it is known; ``location`` is all of it in one text."""

    function: str
    file: str
    line: int
    library: str
    location: str


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Times in ms, ascending; a sample's stack is a row of the stack table, -1 for none. ``bad`` ones are left out."""

    time: F64
    stack: I64
    bad: int


def samples_of(thread: Thread) -> Samples:
    """The samples of a thread that have a time."""
    time, stack = thread.samples.numbers("time"), thread.samples.integers("stack")
    if not len(time):
        deltas = thread.samples.numbers("timeDeltas")
        time = np.cumsum(np.where(np.isfinite(deltas), deltas, 0.0))
    count = min(len(time), len(stack))
    time, stack = time[:count], stack[:count]
    good = np.isfinite(time) & (np.abs(time) < _LARGEST * 1e3)
    order = np.argsort(time[good], kind="stable")
    return Samples(time[good][order], stack[good][order], count - int(good.sum()))


def depth_shown(stacks: int) -> int:
    """How many frames of each of so many stacks can be shown."""
    return min(MAX_DEPTH, max(_MAX_FRAMES // max(stacks, 1), 1))


def stacks_of_samples(
    thread: Thread, shared: Tables, stack: I64, most: int, named: Callable[[Frame], int]
) -> tuple[I64, I32, int]:
    """Offsets and the ``most`` outermost frames, these first, of each of these rows; and how many stacks are cut.

    ``named`` gives the number of a frame's name. A stack ends where its caller is no earlier row of the table.
    """
    table = thread.stackTable or shared.stackTable or Table()
    prefix, frame = table.integers("prefix"), table.integers("frame")
    count = min(len(prefix), len(frame))
    prefix, frame = prefix[:count], frame[:count]
    prefix[prefix >= np.arange(count)] = _NONE
    depth = _depths(prefix)
    stack = np.where(stack < count, stack, _NONE)
    length = np.where(stack >= 0, depth[stack] if count else 0, 0)
    kept = np.where(length > _MAX_FOLLOWED, 0, np.minimum(length, most))
    offset = np.concatenate(([0], np.cumsum(kept)))
    found = np.full(int(offset[-1]), _NONE, np.int64)
    active = np.flatnonzero(kept > 0)
    row, place = stack[active], length[active] - 1
    while len(active):
        here = place < most
        found[offset[active[here]] + place[here]] = frame[row[here]]
        going = place > 0
        active, row, place = active[going], prefix[row[going]], place[going] - 1
    return offset, _named_frames(thread, shared, found, named), int((kept < length).sum())


def _depths(prefix: I64) -> I64:
    depth = [0] * len(prefix)
    for row, caller in enumerate(prefix.tolist()):
        depth[row] = depth[caller] + 1 if caller >= 0 else 1
    return np.array(depth, np.int64)


def _named_frames(thread: Thread, shared: Tables, found: I64, named: Callable[[Frame], int]) -> I32:
    """The names of rows of the frame table, each looked up once."""
    describe = _describing(thread, shared)
    return per_value(found, lambda row: named(describe(row)), np.int32)


def _describing(thread: Thread, shared: Tables) -> Callable[[int], Frame]:
    strings = (thread.strings if thread.strings is not None else shared.strings) or []
    frames = thread.frameTable or shared.frameTable or Table()
    functions = thread.funcTable or shared.funcTable or Table()
    resources = thread.resourceTable or shared.resourceTable or Table()
    sources = thread.sources or shared.sources or Table()
    columns = {
        "func": frames.integers("func"),
        "line": frames.integers("line"),
        "location": frames.integers("location"),
        "name": functions.integers("name"),
        "fileName": functions.integers("fileName"),
        "source": functions.integers("source"),
        "filename": sources.integers("filename"),
        "resource": functions.integers("resource"),
        "library": resources.integers("name"),
    }

    def at(column: str, row: int) -> int:
        values = columns[column]
        return int(values[row]) if 0 <= row < len(values) else _NONE

    def text(index: int) -> str:
        return strings[index] if 0 <= index < len(strings) else ""

    def describe(row: int) -> Frame:
        function = at("func", row)
        file = at("fileName", function)
        file = file if file >= 0 else at("filename", at("source", function))
        return Frame(
            text(at("name", function)),
            text(file),
            max(at("line", row), 0),
            text(at("library", at("resource", function))),
            text(at("location", row)),
        )

    return describe


def _index(value: object) -> int:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LARGEST
    return int(value) if is_one and isinstance(value, (int, float)) else _NONE


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e30 else np.nan
