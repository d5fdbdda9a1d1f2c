"""What a GPU's memory held at one moment, by kind, module, operator, line, stack, size or age; no Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np

from parsers.model import I32, I64, Trace
from parsers.model.late import dataclass, regex
from parsers.model.memory import BEFORE, Frame, Memory
from parsers.model.units import size
from rules.memory.account import DeviceMemory
from rules.memory.kinds import KINDS, Kind, own_frames
from rules.memory.operators import MODULE, modules_of, operators_of
from rules.memory.summary import MemorySummary

MAX_ROWS = 200
NOWHERE = -1
_PATHS = regex(r"[/\\\\]")


class Grouping(StrEnum):
    """By what the rows of a moment are told apart; the value is what users read."""

    KIND = "kind"
    MODULE = "module"
    OPERATOR = "operator"
    LINE = "line"
    STACK = "stack"
    SIZE = "size"
    AGE = "age"


@dataclass(frozen=True, slots=True, eq=False)
class MemoryRow:
    """What one group holds at a moment; ``members`` are the numbers of its allocations.

    They are alike in this column of the table of allocations; not ``is_known``: nothing stands there.
    """

    what: str
    where: str
    blocks: int
    size: int
    kind: Kind
    members: I64
    column: str
    is_known: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """The group of each allocation of a moment, by a column, and what a group is called and where it was made."""

    column: str
    code: I64
    told: Callable[[int], tuple[str, str]]


def rows_at(trace: Trace, summary: MemorySummary, when: int, grouping: Grouping) -> list[MemoryRow]:
    """What is held at a moment, the largest part first; the ``MAX_ROWS`` groups that hold most."""
    account = summary.account
    if account is None:
        return []
    alive = np.flatnonzero(account.alive(when))
    groups = _GROUPS[grouping](trace, summary, account, alive)
    codes, place = np.unique(groups.code, return_inverse=True)
    held, kind = account.memory.allocations.size[alive], account.kind[alive].astype(np.int64)
    sums = np.bincount(place, held, len(codes))
    by_kind = np.bincount(place * len(KINDS) + kind, held, len(codes) * len(KINDS)).reshape(-1, len(KINDS))
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place[order], np.arange(len(codes) + 1))
    rows = []
    for each in np.argsort(-sums, kind="stable")[:MAX_ROWS].tolist():
        members = alive[order[edges[each] : edges[each + 1]]]
        what, where = groups.told(int(codes[each]))
        mostly = KINDS[int(by_kind[each].argmax())]
        is_known = int(codes[each]) != NOWHERE
        rows.append(
            MemoryRow(what, where, len(members), int(sums[each]), mostly, members, groups.column, is_known)
        )
    return rows


def place_of(frame: Frame) -> str:
    """ "train.py line 15"; empty where no file is known."""
    return f"{_PATHS.split(frame.file)[-1]} line {frame.line}" if frame.file else ""


def _by_kind(_: Trace, __: MemorySummary, account: DeviceMemory, alive: I64) -> _Groups:
    return _Groups("kind", account.kind[alive].astype(np.int64), lambda code: (KINDS[code].value, ""))


def _by_line(_: Trace, __: MemorySummary, account: DeviceMemory, alive: I64) -> _Groups:
    code = _frame_of(account, alive, own_frames(account.memory))
    return _Groups("stack", code, _told_frame(account.memory, "no line of the program"))


def _by_module(trace: Trace, _: MemorySummary, account: DeviceMemory, alive: I64) -> _Groups:
    if account.memory.frames:
        modules = _innermost(account.memory, [each.function == "forward" for each in account.memory.frames])
        code = _frame_of(account, alive, modules)

        def told(frame: int) -> tuple[str, str]:
            if frame == NOWHERE:
                return "outside of modules", ""
            made = account.memory.frames[frame]
            return _PATHS.split(made.file)[-1].removesuffix(".py"), place_of(made)

        return _Groups("stack", code, told)
    around = modules_of(trace, account.memory)[alive]
    return _by_name(trace, "module", around, "outside of modules", MODULE)


def _by_operator(trace: Trace, _: MemorySummary, account: DeviceMemory, alive: I64) -> _Groups:
    around = operators_of(trace, account.memory)[alive]
    if (around >= 0).any() or not account.memory.frames:
        return _by_name(trace, "operator", around, "operator unknown", "")
    memory = account.memory
    return _Groups(
        "stack",
        _frame_of(account, alive, _innermost(memory, [True] * len(memory.frames))),
        _told_frame(memory, "no stack recorded"),
    )


def _by_name(trace: Trace, column: str, events: I64, otherwise: str, prefix: str) -> _Groups:
    name = np.where(events >= 0, trace.events.name[events], NOWHERE).astype(np.int64)
    return _Groups(
        column, name, lambda code: (trace.strings[code].removeprefix(prefix) if code >= 0 else otherwise, "")
    )


def _by_stack(_: Trace, __: MemorySummary, account: DeviceMemory, alive: I64) -> _Groups:
    memory = account.memory

    def told(stack: int) -> tuple[str, str]:
        frames = memory.stack(stack)
        if not frames:
            return "no stack recorded", ""
        return " < ".join(dict.fromkeys(each.function for each in frames[:6])), place_of(frames[0])

    return _Groups("stack", memory.allocations.stack[alive].astype(np.int64), told)


def _by_size(_: Trace, __: MemorySummary, account: DeviceMemory, alive: I64) -> _Groups:
    return _Groups(
        "size_bytes", account.memory.allocations.size[alive], lambda code: (f"blocks of {size(code)}", "")
    )


def _by_age(_: Trace, summary: MemorySummary, account: DeviceMemory, alive: I64) -> _Groups:
    start, ends = account.memory.allocations.start[alive], np.array(summary.growth.ends, np.int64)
    made = np.where(start == BEFORE, NOWHERE, np.searchsorted(ends, start))

    def told(step: int) -> tuple[str, str]:
        if step == NOWHERE:
            return "before recording", ""
        if not len(ends):
            return "while it was recorded", ""
        words = ("up to the end of the first step", "after the last step")
        return words[0] if not step else words[1] if step >= len(ends) else f"in step {step + 1}", ""

    return _Groups("start_ns", made, told)


_GROUPS: dict[Grouping, Callable[[Trace, MemorySummary, DeviceMemory, I64], _Groups]] = {
    Grouping.KIND: _by_kind,
    Grouping.MODULE: _by_module,
    Grouping.OPERATOR: _by_operator,
    Grouping.LINE: _by_line,
    Grouping.STACK: _by_stack,
    Grouping.SIZE: _by_size,
    Grouping.AGE: _by_age,
}


def groupings_of(trace: Trace, account: DeviceMemory) -> tuple[Grouping, ...]:
    """Those that tell something of this recording."""
    missing = set()
    if not account.memory.frames:
        missing |= {Grouping.LINE, Grouping.STACK}
        if not any(text.startswith(MODULE) for text in trace.strings):
            missing.add(Grouping.MODULE)
    return tuple(each for each in Grouping if each not in missing)


def _frame_of(account: DeviceMemory, alive: I64, of_stack: I32) -> I64:
    stack = account.memory.allocations.stack[alive]
    if not len(of_stack):
        return np.full(len(stack), NOWHERE, np.int64)
    return np.where(stack >= 0, of_stack[stack], NOWHERE).astype(np.int64)


def _innermost(memory: Memory, wanted: Sequence[bool]) -> I32:
    """For each stack its innermost frame of those that are wanted; ``NOWHERE`` where it has none."""
    found = np.full(len(memory.stack_offset) - 1, NOWHERE, np.int32)
    if not len(memory.stack_frame):
        return found
    at = np.flatnonzero(np.array(wanted, bool)[memory.stack_frame])
    stacks, first = np.unique(np.searchsorted(memory.stack_offset, at, side="right") - 1, return_index=True)
    found[stacks] = memory.stack_frame[at[first]]
    return found


def _told_frame(memory: Memory, otherwise: str) -> Callable[[int], tuple[str, str]]:
    def told(frame: int) -> tuple[str, str]:
        if frame == NOWHERE:
            return otherwise, ""
        made = memory.frames[frame]
        return made.function, place_of(made)

    return told


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """The allocator's segments, the largest first, and the pieces of all of them by address; sizes in bytes.

    ``piece_kind`` is an index into ``KINDS``, -1 for a hole; ``piece_allocation`` the allocation that lies there, -1
    where none does.
    """

    address: I64
    size: I64
    used: I64
    piece_address: I64
    piece_size: I64
    piece_kind: I64
    piece_allocation: I64

    @property
    def holes(self) -> int:
        """Bytes that nobody holds."""
        return int(self.size.sum() - self.used.sum())

    @property
    def largest_hole(self) -> int:
        """The most that could be given without asking the driver."""
        free = self.piece_size[self.piece_kind < 0]
        return int(free.max()) if len(free) else 0


def segments_of(account: DeviceMemory) -> Segments | None:
    """The state of the allocator when the snapshot was taken; None where it was not recorded."""
    blocks = account.memory.blocks
    mine = np.flatnonzero(blocks.device == account.device)
    if not len(mine):
        return None
    mine = mine[np.argsort(blocks.address[mine], kind="stable")]
    address, length, held = blocks.address[mine], blocks.size[mine], blocks.state[mine] != 0
    segment, first = np.unique(blocks.segment[mine], return_index=True)
    used = np.bincount(np.searchsorted(segment, blocks.segment[mine]), length * held, len(segment))
    table = account.memory.allocations
    last = account.alive(int(account.time[-1]) if len(account.time) else 0)
    alive = np.flatnonzero(last)
    alive = alive[np.argsort(table.address[alive], kind="stable")]
    allocation = np.full(len(mine), NOWHERE, np.int64)
    if len(alive):
        at = np.minimum(np.searchsorted(table.address[alive], address), len(alive) - 1)
        same = (table.address[alive[at]] == address) & held
        allocation[same] = alive[at[same]]
    unknown = np.where(held, KINDS.index(Kind.UNKNOWN), NOWHERE)
    kind = np.where(
        allocation >= 0, account.kind[np.maximum(allocation, 0)] if len(table.start) else 0, unknown
    )
    order = np.argsort(-blocks.segment_size[mine][first], kind="stable")
    return Segments(
        segment[order],
        blocks.segment_size[mine][first][order],
        used.astype(np.int64)[order],
        address,
        length,
        kind.astype(np.int64),
        allocation,
    )
