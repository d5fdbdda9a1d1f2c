"""The lines of a user's script that write the changes of a trial into it: found, shown as a diff, and applied."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from parsers.model.late import dataclass
from viewer.capture.request import CaptureProblem
from viewer.capture.torch_runner.stallscope_recorder.trials.sites import Edit, Site
from viewer.user_data.storage import write_bytes

if TYPE_CHECKING:
    from viewer.capture.trials.rewriting import Change

MAX_SIZE = 4 << 20  # bytes of a file: no script that somebody wrote is larger


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file as it is and as it would be."""

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        """Unified, with the paths that ``patch -p1`` and ``git apply`` expect."""
        name = self.path.name
        folder = Path.cwd()
        if self.path.is_relative_to(folder):
            name = self.path.relative_to(folder).as_posix()
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


@dataclass(frozen=True, slots=True)
class Patch:
    """What some changes are in the user's files; ``missing`` are those that no line was found for."""

    files: tuple[FileChange, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        return "".join(each.diff for each in self.files)

    def apply(self) -> None:
        """Write it into the files, or nothing at all where one has changed meanwhile. Raises ``CaptureProblem``."""
        for each in self.files:
            if _text_of(each.path) != each.before:
                raise CaptureProblem(f"{each.path} has changed since the trial.", "Run the trial again.")
        for each in self.files:
            _replace(each.path, each.after)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the script makes its objects, and how each change (by name) is written there."""

    sites: tuple[Site, ...] = ()
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)

    def patch(self, switches: Sequence[str]) -> Patch:
        """The patch for some changes at once; of files that are not on this machine nothing is said."""
        from viewer.capture.trials.rewriting import rewritten

        wanted: dict[str, list[Change]] = defaultdict(list)
        missing = []
        for switch in switches:
            found = self._changes(switch)
            if not found:
                missing.append(switch)
            for file, change in found:
                wanted[file].append(change)
        files, done = [], set[str]()
        for file, changes in wanted.items():
            before = _text_of(Path(file))
            if before is None:
                continue
            after, made = rewritten(before, changes)
            done |= made
            if after != before:
                files.append(FileChange(Path(file), before, after))
        missing += [each for each in switches if each not in done and each not in missing]
        return Patch(tuple(files), tuple(missing))

    def _changes(self, switch: str) -> list[tuple[str, Change]]:
        from viewer.capture.trials.rewriting import Change

        found: list[tuple[str, Change]] = []
        for edit in self.edits.get(switch, ()):
            if edit.once:
                first = next((site for site in _main_first(self.sites)), None)
                found += [(first.file, Change(switch, edit, first))] if first is not None else []
            else:
                found += [
                    (site.file, Change(switch, edit, site)) for site in self.sites if site.what == edit.at
                ]
        return found


def _main_first(sites: Iterable[Site]) -> list[Site]:
    order = {"model": 0, "optimizer": 1, "loader": 2}
    return sorted(sites, key=lambda site: order.get(site.what, len(order)))


def _text_of(path: Path) -> str | None:
    """The text as it stands in the file, with its own line ends; None for what is no text of this machine."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_SIZE:
            return None
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None


def _replace(path: Path, text: str) -> None:
    try:
        mode = path.stat().st_mode
        write_bytes(path.resolve(), text.encode())
        path.chmod(mode)
    except OSError as error:
        raise CaptureProblem(f"{path} cannot be written: {error.strerror or error}.") from error
