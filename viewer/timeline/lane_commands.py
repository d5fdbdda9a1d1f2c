"""What one can do with a lane: fold, pin, hide, move, resize; also as a menu."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

from PySide6.QtGui import QUndoCommand, QUndoStack
from PySide6.QtWidgets import QMenu, QWidget

from parsers.model.late import dataclass
from viewer.timeline.geometry.arrangement import Arrangement, GroupState
from viewer.timeline.geometry.layout import COLLAPSED, Placed, starting_states
from viewer.timeline.geometry.tracks import Track
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


TALLEST = 600
_CHOICES = (("everything", GroupState.FULL), ("GPU lanes", GroupState.BRIEF), ("one strip", GroupState.STRIP))


class LaneCommands:
    """Changes the arrangement and lays out anew."""

    def __init__(self, state: TimelineState, history: LaneHistory) -> None:
        self._state, self._history = state, history

    @property
    def _arrangement(self) -> Arrangement:
        return self._state.arrangement

    def toggle(self, placed: Placed) -> None:
        track = placed.track
        if track.is_made:
            return
        if track.is_heading:
            self.set_group(
                track.group, GroupState.STRIP if placed.state is GroupState.FULL else GroupState.FULL
            )
        else:
            with self._history.change("fold a lane"):
                self._arrangement.collapsed[track.key] = not placed.collapsed

    def set_group(self, group: str, state: GroupState) -> None:
        """How much of a rank is shown."""
        with self._history.change("fold a rank"):
            self._leave_compact()
            self._arrangement.groups[group] = state

    def set_all_groups(self, state: GroupState) -> None:
        if self._state.scene is not None:
            with self._history.change("fold all ranks"):
                self._arrangement.compact = False
                self._arrangement.groups = {group.key: state for group in self._state.scene.index.groups}

    def uncover(self, track: Track, depth: int) -> None:
        """Unfold whatever hides a lane or one of its levels."""
        placed = self._state.layout.find(track.key)
        if placed is not None and any(row.depth == depth for row in placed.rows):
            return
        self._arrangement.hidden.discard(track.key)
        self._state.filter = ""
        if placed is None:
            self._leave_compact()
            states = starting_states(self._state.scene.index.groups) if self._state.scene is not None else {}
            now = self._arrangement.groups.get(track.group, states.get(track.group, GroupState.FULL))
            enough = track.brief and now is not GroupState.STRIP
            self._arrangement.groups[track.group] = (
                now if enough else GroupState.BRIEF if track.brief else GroupState.FULL
            )
        self._arrangement.collapsed[track.key] = False
        self._state.relayout()
        placed = self._state.layout.find(track.key)
        if placed is not None and not any(row.depth == depth for row in placed.rows):
            self.resize(placed, placed.height + 16 * (depth + 1 - len(placed.rows)))

    def pin(self, placed: Placed) -> None:
        """Keep a lane at the top, or let it go."""
        key, pinned = placed.track.key, self._arrangement.pinned
        with self._history.change("pin a lane"):
            if key in pinned:
                pinned.remove(key)
            else:
                pinned.append(key)

    def hide(self, placed: Placed) -> None:
        with self._history.change("hide a lane"):
            self._arrangement.hidden.add(placed.track.key)

    def show_all(self) -> None:
        with self._history.change("show hidden lanes"):
            self._arrangement.hidden.clear()

    def reset(self) -> None:
        with self._history.change("reset the lanes"):
            self._state.arrangement = Arrangement().switched_like(self._arrangement)

    def resize(self, placed: Placed, height: int) -> None:
        with self._history.change("resize a lane", placed.track.key):
            self._arrangement.heights[placed.track.key] = min(max(height, COLLAPSED), TALLEST)

    def move(self, placed: Placed, target: Placed | None) -> bool:
        """Put a lane where another one of its group is; False where a lane cannot go."""
        fixed = placed.track.is_heading or placed.track.is_made
        aims = target is not None and not (target.track.is_heading or target.track.is_made)
        if target is None or not aims or fixed or target.track.group != placed.track.group:
            return False
        if target.track.key == placed.track.key:
            return True
        with self._history.change("move a lane", placed.track.key):
            self._put_before(placed, target)
        return True

    def _put_before(self, placed: Placed, target: Placed) -> None:
        pinned = self._arrangement.pinned
        if placed.track.key in pinned and target.track.key in pinned:
            pinned.insert(pinned.index(target.track.key), pinned.pop(pinned.index(placed.track.key)))
        else:
            keys = [
                each.track.key
                for each in self._state.layout.scrolled
                if each.track.group == placed.track.group
                and not (each.track.is_heading or each.track.is_made)
            ]
            if placed.track.key not in keys or target.track.key not in keys:
                return
            keys.insert(keys.index(target.track.key), keys.pop(keys.index(placed.track.key)))
            others = [key for key in self._arrangement.order if key not in keys]
            self._arrangement.order = others + keys

    def menu(self, placed: Placed | None, parent: QWidget) -> QMenu:
        menu = QMenu(parent)
        if placed is not None and placed.track.derived:
            placed = None
        if placed is not None and placed.track.is_heading:
            group = placed.track.group
            for text, state in _CHOICES:
                action = menu.addAction(f"Show: {text}", partial(self.set_group, group, state))
                action.setCheckable(True)
                action.setChecked(placed.state is state)
        elif placed is not None and placed.track.busy:
            menu.addAction("Hide", lambda: self.hide(placed))
        elif placed is not None:
            pinned = placed.track.key in self._arrangement.pinned
            menu.addAction("Unpin" if pinned else "Pin to the top", lambda: self.pin(placed))
            menu.addAction("Unfold" if placed.collapsed else "Fold", lambda: self.toggle(placed))
            menu.addAction("Hide", lambda: self.hide(placed))
            if placed.hidden_levels and not placed.collapsed:
                tall = placed.height + 16 * placed.hidden_levels
                menu.addAction(f"Show all {placed.track.levels} levels", lambda: self.resize(placed, tall))
        menu.addSeparator()
        scene = self._state.scene
        if scene is not None and len(scene.index.groups) > 1:
            menu.addAction("All ranks: everything", lambda: self.set_all_groups(GroupState.FULL))
            menu.addAction("All ranks: GPU lanes", lambda: self.set_all_groups(GroupState.BRIEF))
            menu.addAction("All ranks: one strip", lambda: self.set_all_groups(GroupState.STRIP))
            menu.addSeparator()
        hidden = menu.addAction(f"Show hidden lanes ({len(self._arrangement.hidden)})", self.show_all)
        hidden.setEnabled(bool(self._arrangement.hidden))
        menu.addAction("Reset lanes", self.reset)
        return menu

    def _leave_compact(self) -> None:
        """What compact mode shows becomes the arrangement, so that one group can differ."""
        scene = self._state.scene
        if self._arrangement.compact and scene is not None:
            self._arrangement.compact = False
            self._arrangement.groups = dict.fromkeys(starting_states(scene.index.groups), GroupState.STRIP)
