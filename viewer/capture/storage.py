"""Where recordings, their output, the history of runs and the saved presets live in the user's folders."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from parsers.model.late import dataclass
from viewer.capture.request import CaptureRequest
from viewer.user_data.storage import write_text

KEPT_RUNS = 50
"""History entries kept; older ones lose their saved output, never their recordings."""
LAST_USED = "last used"


def data_folder() -> Path:
    """The user's data folder of Stallscope; ``STALLSCOPE_DATA`` overrides it."""
    if chosen := os.environ.get("STALLSCOPE_DATA"):
        return Path(chosen)
    from platformdirs import user_data_path

    from parsers.files.user_folders import user_folder

    return user_folder(user_data_path)


def captures_folder() -> Path:
    """Where recordings go when no folder is named."""
    return data_folder() / "captures"


def _write_whole(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        return None


def _request(values: Any) -> CaptureRequest | None:
    try:
        return CaptureRequest.from_json(values) if isinstance(values, dict) else None
    except ValueError:
        return None


class Presets:
    """Requests saved by name."""

    def __init__(self) -> None:
        self._path = data_folder() / "capture-presets.json"

    def all(self) -> dict[str, CaptureRequest]:
        """Presets in the order they were saved, the last used request not among them."""
        kept = {name: _request(values) for name, values in self._read().items() if name != LAST_USED}
        return {name: request for name, request in kept.items() if request is not None}

    def last_used(self) -> CaptureRequest | None:
        """What the previous recording asked for."""
        return _request(self._read().get(LAST_USED))

    def save(self, name: str, request: CaptureRequest) -> None:
        """Keep a request under a name, replacing an earlier one."""
        _write_whole(self._path, {**self._read(), name: request.to_json()})

    def remove(self, name: str) -> None:
        _write_whole(self._path, {key: value for key, value in self._read().items() if key != name})

    def _read(self) -> dict[str, Any]:
        read = _read(self._path)
        return read if isinstance(read, dict) else {}


@dataclass(frozen=True, slots=True)
class Run:
    """One recording made or tried: what was asked, how it ended, and where its output is."""

    folder: Path
    request: CaptureRequest
    started: float
    elapsed_s: float = 0.0
    exit_code: int | None = None
    problem: str = ""
    recordings: tuple[Path, ...] = ()

    @property
    def log(self) -> Path:
        """What the program printed."""
        return self.folder / "output.log"


class History:
    """Runs, newest first, one folder each."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or data_folder() / "capture-runs"

    def begin(self, request: CaptureRequest) -> Run:
        """A new run with its own folder."""
        started = time.time()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(started))
        for attempt in range(1000):
            folder = (
                self._folder
                / f"{stamp}-{request.tool.value}-{request.target.name}{f'-{attempt}' if attempt else ''}"
            )
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            break
        run = Run(folder, request, started)
        self.save(run)
        self._forget_old(run.folder)
        return run

    def save(self, run: Run) -> None:
        import msgspec

        values = msgspec.to_builtins(run, enc_hook=str) | {"request": run.request.to_json()}
        _write_whole(run.folder / "run.json", values)

    def runs(self) -> list[Run]:
        """All runs kept, newest first; damaged ones are left out."""
        import msgspec

        found = []
        for folder in self._folders():
            read = _read(folder / "run.json")
            request = _request(read.get("request")) if isinstance(read, dict) else None
            if request is not None:
                values = {**read, "folder": str(folder), "request": msgspec.to_builtins(request)}
                with suppress(msgspec.ValidationError):
                    found.append(msgspec.convert(values, Run, dec_hook=lambda kind, text: kind(text)))
        return sorted(found, key=lambda run: run.started, reverse=True)

    def _folders(self) -> list[Path]:
        try:
            return sorted(path for path in self._folder.iterdir() if path.is_dir())
        except OSError:
            return []

    def _forget_old(self, newest: Path) -> None:
        """Also where the clock was set back, so that the newest has the oldest name."""
        for folder in [each for each in self._folders() if each != newest][: 1 - KEPT_RUNS]:
            shutil.rmtree(folder, ignore_errors=True)


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
        import msgspec

        values = msgspec.to_builtins(self) | {"request": self.request.to_json()}
        _folder().mkdir(parents=True, exist_ok=True)
        write_text(_folder() / f"{self.mark}.json", json.dumps(values, ensure_ascii=False))

    def forget(self) -> None:
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
        run = _read_left(file)
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


def _read_left(file: Path) -> FarRun | None:
    import msgspec

    try:
        return msgspec.json.decode(file.read_bytes(), type=FarRun)
    except (OSError, msgspec.DecodeError):
        return None
