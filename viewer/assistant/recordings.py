"""The recordings that an assistant may open: what was named when the server started, and what lies in it."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from parsers.model import Progress, TraceError
from rules.analysis.analysis import Analysis
from viewer.loading.loader import read_apart

MOST_OPEN = 4  # recordings that stay in memory, those asked for last
MOST_LISTED = 200


class Refused(Exception):
    """What is not answered; one sentence with a hint."""


class Recordings:
    """Paths are resolved before they are compared: neither ``..`` nor a link leads out of what was named."""

    def __init__(self, named: Sequence[str | os.PathLike[str]]) -> None:
        self._named = tuple(Path(os.path.realpath(each)) for each in named)
        self._open: OrderedDict[tuple[Path, ...], Analysis] = OrderedDict()
        self._turn = threading.Lock()

    def listed(self) -> list[str]:
        """What can be asked for: the files that were named, and those in folders that were."""
        found: list[str] = []
        for each in self._named:
            if each.is_dir():
                found.append(str(each))
                found += [str(file) for file in sorted(each.rglob("*")) if file.is_file()]
            else:
                found.append(str(each))
            if len(found) > MOST_LISTED:
                break
        return found[:MOST_LISTED]

    def allowed(self, path: str) -> Path:
        """A path that lies in what was named. Raises ``Refused``."""
        hint = "Ask for what `list_recordings` tells."
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
        raise Refused(f"Only what was named when the server started can be opened, and it must exist. {hint}")

    def analysis(self, paths: str | Sequence[str]) -> Analysis:
        """An opened recording: a file, a folder of ranks, or several files of one run. Raises ``Refused``."""
        names = [paths] if isinstance(paths, str) else list(paths)
        if not names:
            raise Refused("Name a recording.")
        key = tuple(self.allowed(each) for each in names)
        with self._turn:
            known = self._open.get(key)
            if known is None:
                try:
                    known = Analysis(read_apart(key, Progress()))
                except TraceError as error:
                    raise Refused(str(error)) from None
                self._open[key] = known
            self._open.move_to_end(key)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return known
