"""The options that write reports into files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from parsers.model import TraceError
from viewer.terminal.console import write_bytes

_HELP = {
    "html": "write a page that stands alone",
    "pdf": "write the page as PDF",
    "markdown": "write it to be pasted into a review or a build's summary",
    "junit": "write what the gate answered as JUnit XML",
}


def add_reports(parser: argparse.ArgumentParser, kinds: Sequence[str] = tuple(_HELP)) -> None:
    """One option for each kind of file."""
    for kind in kinds:
        parser.add_argument(f"--{kind}", type=Path, metavar="FILE", help=_HELP[kind])


def files_asked_for(options: argparse.Namespace) -> list[Path]:
    """The files that reports are to be written to."""
    return [path for kind in _HELP if (path := getattr(options, kind, None)) is not None]


def write_reports(options: argparse.Namespace, makers: Mapping[str, Callable[[], bytes]]) -> None:
    """Write what was asked for; raises TraceError."""
    for kind, make in makers.items():
        path: Path | None = getattr(options, kind, None)
        if path is not None:
            try:
                content = make()
            except ImportError as error:
                raise TraceError(
                    path,
                    f"PDF needs Qt, which cannot be loaded here: {error}.",
                    "Use --html and print the page from a browser.",
                ) from error
            write_bytes(path, content)
