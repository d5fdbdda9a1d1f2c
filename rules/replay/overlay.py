"""What is different in a replay: host times, durations, waits and dependencies in place of the recorded ones."""

from __future__ import annotations

from dataclasses import fields, replace

from parsers.model import BOOL, F64
from parsers.model.late import dataclass


@dataclass(slots=True, eq=False)
class Overlay:
    """Columns for host nodes (``gap``, ``cost``, ``waits``), threads (``tail``) and operations, all free to change.

    Times in ns. ``waits`` switches a host node's waiting on, ``follows`` a dependency; an operation that is not
    ``present`` takes no time and waits for nothing, and ``extra`` is for how long nothing known holds one up.
    ``transfer`` is the time that each collective takes after its last participant came; where ``meets`` is off, nobody
    waits for the others. ``steps`` is how many steps the replayed nodes are then worth. Kernels that took turns on
    their device still do unless ``turns`` is off.
    """

    gap: F64
    cost: F64
    tail: F64
    waits: BOOL
    duration: F64
    extra: F64
    present: BOOL
    follows: BOOL
    transfer: F64
    meets: BOOL
    steps: float
    turns: bool = True

    def copy(self) -> Overlay:
        """Columns of its own."""
        columns = (each.name for each in fields(self) if each.name not in ("steps", "turns"))
        return replace(self, **{name: getattr(self, name).copy() for name in columns})
