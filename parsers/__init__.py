"""Reads recordings: ``open_trace`` recognises each file by its content and joins several into one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsers.model import Progress, Trace

__all__ = ["open_trace"]


def open_trace(paths: Sequence[Path], progress: Progress | None = None, keep: bool = True) -> Trace:
    """Read one recording, or several of one run (files, folders, archives), as one trace.

    Raises ``TraceError`` with a hint. A file inside a folder or an archive that cannot be read is left out, which
    ``Trace.quality`` says; a file that the user named must be readable. Without ``keep`` a recording that is alone does
    not get into the cache: the caller keeps it.
    """
    from parsers.opening import open_run  # late: a window is there long before it reads anything

    return open_run(paths, progress, keep)
