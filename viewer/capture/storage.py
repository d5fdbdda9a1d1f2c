"""Where recordings, their output, the history of runs and the saved presets live in the user's folders."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from parsers.model.late.dataclass import dataclass
from viewer.capture.request import CaptureRequest
from viewer.kept.storage import write_text

KEPT_RUNS = 50
"""History entries kept; older ones lose their saved output, never their recordings."""
LAST_USED = "last used"


def data_folder() -> Path:
    """The user's data folder of Stallscope; ``STALLSCOPE_DATA`` overrides it."""
    if os.environ.get("STALLSCOPE_DATA"):
        return Path(os.environ["STALLSCOPE_DATA"])
    try:
        from platformdirs import user_data_path
    except ImportError:
        return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "stallscope"
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


class Presets:
    """Requests saved by name."""

    def __init__(self) -> None:
        self._path = data_folder() / "capture-presets.json"

    def all(self) -> dict[str, CaptureRequest]:
        """Presets in the order they were saved, the last used request not among them."""
        return {
            name: CaptureRequest.from_json(values)
            for name, values in self._read().items()
            if name != LAST_USED
        }

    def last_used(self) -> CaptureRequest | None:
        """What the previous recording asked for."""
        values = self._read().get(LAST_USED)
        return CaptureRequest.from_json(values) if values is not None else None

    def save(self, name: str, request: CaptureRequest) -> None:
        """Keep a request under a name, replacing an earlier one."""
        _write_whole(self._path, {**self._read(), name: request.to_json()})

    def remove(self, name: str) -> None:
        _write_whole(self._path, {key: value for key, value in self._read().items() if key != name})

    def _read(self) -> dict[str, Any]:
        read = _read(self._path)
        return {str(k): v for k, v in read.items() if isinstance(v, dict)} if isinstance(read, dict) else {}


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
        _write_whole(
            run.folder / "run.json",
            {
                "request": run.request.to_json(),
                "started": run.started,
                "elapsed_s": run.elapsed_s,
                "exit_code": run.exit_code,
                "problem": run.problem,
                "recordings": [str(path) for path in run.recordings],
            },
        )

    def runs(self) -> list[Run]:
        """All runs kept, newest first."""
        found = []
        for folder in self._folders():
            read = _read(folder / "run.json")
            if isinstance(read, dict):
                found.append(
                    Run(
                        folder,
                        CaptureRequest.from_json(read.get("request") or {}),
                        float(read.get("started") or 0.0),
                        float(read.get("elapsed_s") or 0.0),
                        read.get("exit_code"),
                        str(read.get("problem") or ""),
                        tuple(Path(path) for path in read.get("recordings") or ()),
                    )
                )
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
