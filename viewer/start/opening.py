"""What can be opened without any file dialog: is there a display, the bundled samples, the files opened lately."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import resources
from viewer.kept.recent_summary import Summary

RECENT_LIMIT = 12
FORMATS = (
    ("PyTorch profiler", "Kineto or Chrome JSON, plain, .gz, .zst or .zip; several ranks as one run"),
    ("Nsight Systems", "SQLite exports; .nsys-rep where nsys is installed"),
    ("Nsight Compute", "CSV of the raw or details page, and .ncu-rep reports"),
    ("nvidia-smi", "dmon and query logs, as counters"),
)
FILE_FILTER = (
    "Recordings (*.json *.json.gz *.json.zst *.gz *.zip *.zst *.tar *.tgz *.sqlite *.sqlite3 *.db *.csv *.csv.gz "
    "*.ncu-rep *.ncu-rep.gz *.nsys-rep *.txt *.log);;All files (*)"
)


def has_display(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Whether a window can be opened: on Linux, a display server or an explicit Qt platform is named."""
    environment = os.environ if environment is None else environment
    if not platform.startswith("linux"):
        return True
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


@dataclass(frozen=True, slots=True)
class Sample:
    """A bundled recording; ``path`` is a file, or a folder of ranks."""

    path: Path
    title: str
    story: str
    kind: str


def samples() -> list[Sample]:
    """The bundled recordings that are there, in the order of ``samples.toml``."""
    folder = resources.path("samples")
    try:
        listed = tomllib.loads((folder / "samples.toml").read_text("utf-8"))["sample"]
    except OSError:
        return []
    found = [Sample(folder / each["path"], each["title"], each["story"], each["kind"]) for each in listed]
    return [sample for sample in found if sample.path.exists()]


@dataclass(frozen=True, slots=True)
class Recent:
    """Files that were opened together, the verdict they got, and a summary for the start page."""

    paths: tuple[str, ...]
    verdict: str = ""
    summary: Summary | None = None

    @property
    def name(self) -> str:
        first = Path(self.paths[0])
        return first.name if len(self.paths) == 1 else f"{first.name} and {len(self.paths) - 1} more"

    @property
    def folder(self) -> str:
        return str(Path(self.paths[0]).parent)

    @property
    def exists(self) -> bool:
        return all(os.path.exists(path) for path in self.paths)


def data_folder() -> Path:
    """Where the program keeps what it remembers; made when missing."""
    import platformdirs

    return platformdirs.user_data_path("stallscope", appauthor=False, ensure_exists=True)


def recent_files() -> list[Recent]:
    """What was opened lately, the newest first; empty when nothing was, or the list is damaged."""
    try:
        stored = json.loads((data_folder() / "recent.json").read_text("utf-8"))
        return [
            Recent(
                tuple(map(str, each["paths"])), str(each["verdict"]), Summary.from_data(each.get("summary"))
            )
            for each in stored
            if each["paths"]
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return []


def remember(paths: Sequence[Path], verdict: str = "", summary: Summary | None = None) -> None:
    """Put these files first in the list of recent ones; a list that cannot be written is no reason to fail."""
    key = tuple(str(Path(path).absolute()) for path in paths)
    if any(Path(path).is_relative_to(resources.path("samples")) for path in key):
        return
    known = recent_files()
    former = next((recent.summary for recent in known if recent.paths == key), None)
    kept = [recent for recent in known if recent.paths != key]
    _store([Recent(key, verdict, summary or former), *kept][:RECENT_LIMIT])


def forget_recent() -> None:
    """Empty the list of recent files."""
    _store([])


def forget(recent: Recent) -> None:
    """Take one entry off the list of recent files; the files themselves stay."""
    _store([each for each in recent_files() if each.paths != recent.paths])


def _store(recents: Sequence[Recent]) -> None:
    text = json.dumps([_as_data(recent) for recent in recents])
    try:
        target = data_folder() / "recent.json"
        partial = target.with_suffix(".partial")
        partial.write_text(text, "utf-8")
        partial.replace(target)
    except OSError:
        pass


def _as_data(recent: Recent) -> dict[str, Any]:
    data: dict[str, Any] = {"paths": recent.paths, "verdict": recent.verdict}
    return data if recent.summary is None else data | {"summary": recent.summary.to_data()}


class OpenNote:
    """A note on disk of what one window shows, taken away when it closes: what is left over tells of a crash."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def write(self, paths: Sequence[Path]) -> None:
        """This window now shows these files; a note that cannot be written is no reason to fail."""
        try:
            folder = data_folder() / "open"
            folder.mkdir(exist_ok=True)
            self._path = self._path or folder / f"{os.getpid()}-{id(self)}.json"
            self._path.write_text(json.dumps([str(Path(path).absolute()) for path in paths]), "utf-8")
        except OSError:
            self._path = None

    def remove(self) -> None:
        """The window shows nothing any more."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


def left_open() -> list[Recent]:
    """What windows showed when their program ended without closing them; each is told of once."""
    found = []
    for note in sorted((data_folder() / "open").glob("*.json")):
        try:
            owner = int(note.name.partition("-")[0])
            if owner == os.getpid() or _runs(owner):
                continue
            paths = tuple(map(str, json.loads(note.read_text("utf-8"))))
            note.unlink()
        except (OSError, ValueError, TypeError):
            continue
        if paths:
            found.append(Recent(paths))
    return [recent for recent in found if recent.exists]


def _runs(process: int) -> bool:
    if sys.platform == "win32":
        return True  # os.kill would end the process there: rather miss a crash than cause one
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
