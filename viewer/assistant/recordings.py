"""The recordings that an assistant may open: what was named when the server started, and what lies in it."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from parsers.model import Progress
from parsers.model.late import dataclass
from viewer.loading.recording_process import AskedRecording, Bounds
from viewer.query.limits import Limits

MAX_OPEN = 4  # recordings that stay in memory, those asked for last
MAX_HELD_BYTES = 4_000_000_000  # memory of all of them, and of any one
MAX_PATHS = 64  # of one run
MAX_OPENING_S, MAX_ANSWERING_S = 120.0, 60.0
MAX_WAITING, MAX_WAIT_S = 8, 30.0  # calls about one recording, and how long one waits for a place
MAX_LISTED = 200
_LOOK_EVERY_S = 0.05
Key = tuple[tuple[Path, ...], ...]


class Refused(Exception):
    """What is not answered; one sentence with a hint."""


@dataclass(slots=True)
class _Slot:
    recording: AskedRecording
    waiting: int = 0  # calls that are being answered or wait for it


class Recordings:
    """Paths are resolved before they are compared: neither ``..`` nor a link leads out of what was named."""

    def __init__(self, named: Sequence[str | os.PathLike[str]]) -> None:
        self._named = tuple(Path(os.path.realpath(each)) for each in named)
        self._open: OrderedDict[Key, _Slot] = OrderedDict()
        self._changed = threading.Condition()

    def listed(self) -> list[str]:
        """What can be asked for: the files that were named, and those in folders that were."""
        found: list[str] = []
        for each in self._named:
            if each.is_dir():
                found.append(str(each))
                found += [str(file) for file in sorted(each.rglob("*")) if file.is_file()]
            else:
                found.append(str(each))
            if len(found) > MAX_LISTED:
                break
        return found[:MAX_LISTED]

    def allowed(self, path: str) -> Path:
        """A path that lies in what was named. Raises ``Refused``."""
        hint = "Use a path that `list_recordings` shows."
        if not path or "\0" in path or "://" in path or len(path) > 4096:
            raise Refused(f"This is not the path of a recording. {hint}")
        try:
            beside = [each if each.is_dir() else each.parent for each in self._named]
            tries = [Path(path)] if os.path.isabs(path) else [folder / path for folder in beside]
            for each in tries:
                real = Path(os.path.realpath(each))
                inside = any(
                    real == named or (named.is_dir() and real.is_relative_to(named)) for named in self._named
                )
                if inside and real.exists():
                    return real
        except (OSError, ValueError):
            pass
        raise Refused(f"Only existing files that were named when the server started can be opened. {hint}")

    def files_of(self, run: str | Sequence[str]) -> tuple[Path, ...]:
        """The files of a run that was asked for, each once. Raises ``Refused``."""
        names = [run] if isinstance(run, str) else list(run)
        if not names:
            raise Refused("Name a recording.")
        if len(names) > MAX_PATHS:
            raise Refused(f"These are {len(names):,} paths: name at most {MAX_PATHS}, or their folder.")
        return tuple(dict.fromkeys(self.allowed(each) for each in names))

    def ask(
        self,
        runs: Sequence[str | Sequence[str]],
        function: Callable[..., Any],
        progress: Progress,
        **arguments: Any,
    ) -> bytes:
        """What a function says of recordings that are opened for it, in a process that nobody else waits for.

        Raises ``Refused``, ``TraceError``, ``QueryError``, and ``Cancelled`` once the progress is cancelled.
        """
        key = tuple(self.files_of(each) for each in runs)
        slot = self._taken(key, progress)
        try:
            return slot.recording.answer(function, progress, **arguments)
        finally:
            with self._changed:
                slot.waiting -= 1
                self._changed.notify_all()
            self._let_go()

    def _taken(self, key: Key, progress: Progress) -> _Slot:
        """A place among those that are open, which stays until the answer is there."""
        until = time.monotonic() + MAX_WAIT_S
        while True:
            self._let_go(room_for=key)
            with self._changed:
                slot = self._open.get(key)
                if slot is None and len(self._open) < MAX_OPEN:
                    bounds = Bounds(MAX_OPENING_S, MAX_ANSWERING_S, MAX_HELD_BYTES)
                    slot = self._open[key] = _Slot(AskedRecording(key, Limits(), bounds))
                if slot is not None:
                    if slot.waiting >= MAX_WAITING:
                        raise Refused("Too many questions to it are already waiting: wait for an answer.")
                    slot.waiting += 1
                    self._open.move_to_end(key)
                    return slot
                if time.monotonic() > until:
                    raise Refused("The maximum number of recordings is already in use: wait for an answer.")
                self._changed.wait(_LOOK_EVERY_S)
            progress.step(0.0, "waiting")

    def _let_go(self, room_for: Key | None = None) -> None:
        """End those that nobody waits for and that were asked longest ago, until number and memory are in bounds."""
        with self._changed:
            wanted = int(room_for is not None and room_for not in self._open)
            held = {key: slot.recording.resident for key, slot in self._open.items()}
            ended = []
            for key, slot in list(self._open.items()):
                too_many = len(self._open) + wanted > MAX_OPEN
                if slot.waiting or not (too_many or sum(held.values()) > MAX_HELD_BYTES):
                    continue
                ended.append(self._open.pop(key))
                del held[key]
        for slot in ended:
            slot.recording.close()

    def close(self) -> None:
        for slot in list(self._open.values()):
            slot.recording.close()
