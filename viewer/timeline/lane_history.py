"""Undo of what one did to the lanes: folding, pinning, hiding, moving, resizing and filtering."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

from PySide6.QtGui import QUndoCommand, QUndoStack

from parsers.model.late.dataclass import dataclass
from viewer.timeline.geometry.arrangement import Arrangement
from viewer.timeline.state import TimelineState

MAX_CHANGES = 200
_MERGES = 1  # the id of changes that are one with the change before, where both are of the same thing


@dataclass(frozen=True, slots=True)
class _Lanes:
    arrangement: Arrangement
    filter: str


class _Change(QUndoCommand):
    """From one arrangement of the lanes to another."""

    def __init__(self, text: str, history: LaneHistory, before: _Lanes, after: _Lanes, of: str) -> None:
        super().__init__(text)
        self._history, self._before, self.after, self.of = history, before, after, of
        self._done = True  # the stack's first call of ``redo`` comes when it was done already

    def id(self) -> int:
        return _MERGES if self.of else -1

    def mergeWith(self, other: QUndoCommand) -> bool:
        if not isinstance(other, _Change) or other.of != self.of:
            return False
        self.after = other.after
        return True

    def redo(self) -> None:
        if not self._done:
            self._history.show(self.after)
        self._done = False

    def undo(self) -> None:
        self._history.show(self._before)


class LaneHistory:
    """Keeps every change that is made inside of ``change``, and takes it back or makes it again."""

    def __init__(self, state: TimelineState) -> None:
        self._state = state
        self._stack = QUndoStack(state)
        self._stack.setUndoLimit(MAX_CHANGES)
        self.undo, self.redo = self._stack.undo, self._stack.redo

    @contextmanager
    def change(self, text: str, of: str = "") -> Iterator[None]:
        """A change of the lanes, after which they are laid out anew; changes in a row of the same thing are one."""
        before = self._lanes()
        yield
        after = self._lanes()
        self._state.relayout()
        if after != before:
            self._stack.push(_Change(text, self, before, after, of))

    def clear(self) -> None:
        """Forget all changes, as for another recording."""
        self._stack.clear()

    def show(self, lanes: _Lanes) -> None:
        """Lay the lanes out as they were."""
        self._state.filter = lanes.filter
        self._state.arrangement = deepcopy(lanes.arrangement).switched_like(self._state.arrangement)
        self._state.relayout()

    def _lanes(self) -> _Lanes:
        return _Lanes(deepcopy(self._state.arrangement), self._state.filter)
