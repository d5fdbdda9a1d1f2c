"""What a command reads and writes: files that were named or come from standard input, results, progress, complaints."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model import Progress, TraceError
from parsers.model.late import regex
from viewer.appearance.plain_text import one_line  # here: what cannot open a file can still complain
from viewer.terminal import streams

_HALVES = regex("[\ud800-\udfff]")  # of characters, which a strict reader of JSON refuses
_NO_ASCII = regex(r"[^\x00-\x7f]+")

if TYPE_CHECKING:
    from parsers.files.private_folder import PrivateFolder
    from parsers.model import Trace


def recording(
    names: Sequence[str], progress: Progress, meanwhile: Callable[[], None] = lambda: None
) -> Trace:
    """Read the named files as one run, as ``read_apart`` does; "-" is standard input. Raises ``TraceError``."""
    from viewer.loading.loader import read_apart

    return read_apart(inputs(names), progress, meanwhile)


def inputs(names: Sequence[str]) -> list[Path]:
    """The named files, those of addresses by the paths of their copies; "-" is what standard input holds."""
    from parsers.files.fetched import is_address, local_copy

    return [
        _from_standard_input() if name == "-" else local_copy(name) if is_address(name) else Path(name)
        for name in names
    ]


_until_the_end: list[PrivateFolder] = []


def _from_standard_input() -> Path:
    import shutil

    from parsers.files.private_folder import PrivateFolder

    _until_the_end.append(PrivateFolder())
    path = _until_the_end[-1].path / "standard input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def print_json(value: Mapping[str, Any], told: Callable[[Any], Any] | None = None) -> None:
    """One object on standard output; ``told`` says what JSON has no word for."""
    sys.stdout.write(json_text(value, told))


def json_text(value: Mapping[str, Any], told: Callable[[Any], Any] | None = None) -> str:
    """One object in a line of its own, of whole characters."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=told)
    whole = _HALVES.sub("\ufffd", text)
    return _NO_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], whole) + "\n"


def write_bytes(path: Path, content: bytes) -> None:
    """Write a result in one piece; raises ``TraceError``."""
    from viewer.user_data import storage

    try:
        storage.write_bytes(path, content)
    except OSError as error:
        raise not_written(path, error) from error


def not_written(path: Path, error: OSError) -> TraceError:
    """What is said of a result that could not be written."""
    reason = error.strerror or str(error)
    return TraceError(path, f"The result could not be written: {reason}.", "Choose another place.")


def complain(text: object) -> None:
    """One line on the standard error output; nothing where that is closed."""
    try:
        print(one_line(f"stallscope: {text}"), file=sys.stderr, flush=True)
    except OSError:
        streams.give_up(sys.stderr)


def terminal_progress() -> Progress:
    """A bar on a terminal, nothing when piped."""
    if not sys.stderr.isatty():
        return Progress()

    def show(fraction: float, doing: str) -> None:
        bar = "#" * round(30 * fraction)
        sys.stderr.write(f"\r\x1b[K[{bar:<30}] {doing}" if fraction < 1 else "\r\x1b[K")
        sys.stderr.flush()

    return Progress(show)


def program_version() -> str:
    """Of the installed program."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("stallscope")
    except PackageNotFoundError:
        return "from source"
