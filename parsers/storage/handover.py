"""Hands a trace from the process that read it to another one, as a file of columns."""

from __future__ import annotations

import tempfile
from pathlib import Path

from parsers.files.containers import Unpacked, holding
from parsers.files.private_folder import PrivateFolder
from parsers.model import ArgumentSource, Trace
from parsers.model.late import dataclass
from parsers.storage import cache, traces
from parsers.storage.file_arguments import FileArguments, FileOrigin


@dataclass(frozen=True, slots=True)
class Handover:
    """In which file the trace is, and where each source of arguments comes from."""

    file: str
    origins: tuple[FileOrigin | None, ...]


class CannotHandOver(Exception):
    """There is no room for the columns, or arguments come from where another process cannot follow."""


def hand_over(trace: Trace, folder: Path, keep: bool = True) -> Handover:
    """Write a trace where another process can map it: into the cache if it belongs there, else below ``folder``.

    Without ``keep`` the cache is left alone. Raises ``CannotHandOver``.
    """
    origins = tuple(_origin(each) for each in trace.sources)
    entry = cache.store(trace) if keep else None
    if entry is None:
        try:
            entry = Path(tempfile.mkdtemp(prefix="trace-", dir=folder)) / "trace.columns"
            traces.write(entry, trace)
        except (OSError, ValueError) as error:
            raise CannotHandOver(f"the columns could not be written ({error})") from error
    return Handover(str(entry), origins)


def take_over(handed: Handover, folder: PrivateFolder | None = None) -> Trace:
    """The trace that another process wrote; ``folder``, where it may lie, stays for as long as its arguments do.

    What is wrong with the files raises whatever it raises.
    """
    sources: tuple[ArgumentSource | None, ...] = tuple(
        None if origin is None else FileArguments(origin) for origin in handed.origins
    )
    return holding(traces.read(Path(handed.file), sources), folder)


def _origin(source: ArgumentSource | None) -> FileOrigin | None:
    if isinstance(source, Unpacked):
        source = source.source
    if source is None or isinstance(source, FileArguments):
        return None if source is None else source.origin
    raise CannotHandOver("its parser cannot fetch arguments from another process")
