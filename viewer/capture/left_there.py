"""Runs of ours at other places, written down before anything is made there, so that nothing is forgotten there."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from dataclasses import replace
from pathlib import Path

from parsers.model.late import dataclass
from viewer.capture.request import CaptureRequest
from viewer.capture.storage import data_folder
from viewer.user_data.storage import write_text

_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class FarRun:
    """A run elsewhere: its folder there, the mark of its processes, and the folder here that its files are for.

    ``owner`` is the process that looks after it; ``unwanted`` runs are to be killed and removed.
    """

    mark: str
    request: CaptureRequest
    folder: str
    into: str
    owner: int
    job: str = ""
    started: float = 0.0
    unwanted: bool = False

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody looks after it any more."""
        return not is_alive(self.owner, self.started)

    def keep(self) -> None:
        """Write it down."""
        import msgspec

        values = msgspec.to_builtins(self) | {"request": self.request.to_json()}
        _folder().mkdir(parents=True, exist_ok=True)
        write_text(_folder() / f"{self.mark}.json", json.dumps(values, ensure_ascii=False))

    def forget(self) -> None:
        """Nothing of it is left there."""
        with contextlib.suppress(OSError):
            (_folder() / f"{self.mark}.json").unlink(missing_ok=True)

    def let_go(self, unwanted: bool) -> FarRun:
        """Nobody looks after it from now on; as it is written down."""
        left = replace(self, owner=0, unwanted=unwanted)
        left.keep()
        return left

    @property
    def can_be_fetched(self) -> bool:
        """Whether somebody would want it, and nobody looks after it."""
        return self.is_abandoned and not self.unwanted


def far_runs(place: str = "") -> list[FarRun]:
    """Runs that may have left something there, at one place or at all, oldest first."""
    found = []
    for file in _folder().glob("*.json"):
        run = _read(file)
        if run is not None and (not place or run.request.on == place):
            found.append(run)
    return sorted(found, key=lambda run: run.started)


def is_alive(owner: int, started: float) -> bool:
    """Whether a process of this machine is still there."""
    if owner <= 0:
        return False
    if os.name == "nt":  # where asking for a process by this call would end it
        return time.time() - started < _A_DAY
    try:
        os.kill(owner, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def own_id() -> str:
    """What folders elsewhere say whose they are."""
    file = _folder() / "id"
    with contextlib.suppress(OSError):
        return file.read_text("utf-8").strip()
    _folder().mkdir(parents=True, exist_ok=True)
    write_text(file, uuid.uuid4().hex)
    return file.read_text("utf-8").strip()


def _folder() -> Path:
    return data_folder() / "far-runs"


def _read(file: Path) -> FarRun | None:
    import msgspec

    try:
        return msgspec.json.decode(file.read_bytes(), type=FarRun)
    except (OSError, msgspec.DecodeError):
        return None
