"""What a GPU's memory held over time, by kind, and at one moment, by kind or by line of code; no Qt."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rules.memory.account import DeviceMemory
from rules.memory.kinds import KINDS, Kind, own_frames

I64 = npt.NDArray[np.int64]

MOST_COLUMNS = 600
MOST_LINES = 200
NOWHERE = -1
_PATHS = re.compile(r"[/\\\\]")
LASTING = (
    Kind.OLDER,
    Kind.PARAMETERS,
    Kind.OPTIMIZER,
    Kind.COMMUNICATION,
    Kind.UNKNOWN,
    Kind.INPUTS,
    Kind.GRADIENTS,
    Kind.ACTIVATIONS,
    Kind.TEMPORARIES,
)  # from below: what stays for long, then what comes and goes


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Bytes of each kind at ascending ``time`` (ns), in the order in which they lie on each other; each holds until
    the next time."""

    time: I64
    held: dict[Kind, I64]


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """What one kind, or one line of code, holds at a moment."""

    what: str
    where: str
    blocks: int
    size: int
    kind: Kind


def stack_of(account: DeviceMemory, columns: int = MOST_COLUMNS) -> Stack:
    """The kinds over time; a column shows the moment at which most was held, so that no peak is lost."""
    times, moments = _moments(account.time, account.held, columns)
    held: dict[Kind, I64] = {}
    for kind in LASTING:
        mine = account.mine & (account.kind == KINDS.index(kind))
        if not mine.any():
            continue
        when, total = account.memory.held_of(mine)
        held[kind] = np.append(0, total)[np.searchsorted(when, moments, side="right")].astype(np.int64)
    return Stack(times, held)


def _moments(time: I64, held: I64, columns: int) -> tuple[I64, I64]:
    """When columns begin, and of each the moment at which most was held."""
    if len(time) <= 2 * columns:
        exact = np.unique(time)
        return exact, exact
    edges = np.linspace(int(time[0]), int(time[-1]), columns + 1).astype(np.int64)
    until = np.searchsorted(time, edges, side="left")
    until[-1] = len(time)
    before = np.maximum(until[:-1] - 1, 0)  # what is held when a column begins counts too
    most = [int(low) + int(held[low:high].argmax()) for low, high in zip(before, until[1:], strict=True)]
    return edges[:-1], time[most]


def rows_at(account: DeviceMemory, when: int, *, by_line: bool) -> list[MemoryRow]:
    """What is held at a moment, the largest part first; of lines of code, the ``MOST_LINES`` that hold most."""
    memory, alive = account.memory, account.alive(when)
    size, kind = memory.allocations.size[alive], account.kind[alive].astype(np.int64)
    if not by_line:
        counts, sums = np.bincount(kind, minlength=len(KINDS)), np.bincount(kind, size, len(KINDS))
        found = [
            MemoryRow(each.value, "", int(counts[place]), int(sums[place]), each)
            for place, each in enumerate(KINDS)
            if counts[place]
        ]
        return sorted(found, key=lambda row: -row.size)
    stack, own = memory.allocations.stack[alive], own_frames(memory)
    frame = np.where(stack >= 0, own[stack], NOWHERE) if len(own) else np.full(len(stack), NOWHERE)
    frames, line = np.unique(frame, return_inverse=True)
    sums = np.bincount(line, size, len(frames))
    counts = np.bincount(line, minlength=len(frames))
    by_kind = np.bincount(line * len(KINDS) + kind, size, len(frames) * len(KINDS)).reshape(-1, len(KINDS))
    rows = []
    for place in np.argsort(-sums, kind="stable")[:MOST_LINES].tolist():
        what, where = "not made by a line of the program", ""
        if frames[place] != NOWHERE:
            made = memory.frames[int(frames[place])]
            what, where = made.function, f"{_PATHS.split(made.file)[-1]} line {made.line}"
        mostly = KINDS[int(by_kind[place].argmax())]
        rows.append(MemoryRow(what, where, int(counts[place]), int(sums[place]), mostly))
    return rows
