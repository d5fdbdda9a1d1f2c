"""The values of command-line options, such as a price or a limit; each raises ArgumentTypeError otherwise."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from parsers.model import TraceError
from parsers.model.units import parse_size
from viewer.terminal.console import NamesOutput, NamesText, write_bytes

if TYPE_CHECKING:
    from rules.gates.limits import Gates, Limit
    from rules.terms import Thresholds


Read = TypeVar("Read")


def price(text: str) -> float:
    """Of one hour of a GPU, in any currency."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a price per hour, such as 2.50")
    return value


def count(text: str) -> int:
    """A whole number of one and more."""
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes, such as 4")
    return int(text)


def seconds(text: str) -> float:
    """How long something may take."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 30")
    return value


def memory(text: str) -> int:
    """How much memory something may take, in bytes."""
    value = parse_size(text) or 0.0
    if not 1e6 <= value <= 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of at least 1 MB, such as 500MB")
    return int(value)


def limit(text: str) -> Limit:
    """What may not get worse, and by how much: "5", "5%", "launches=0", "kernel:NAME=5%"."""
    from rules.gates.limits import limit_of

    return _or_refused(limit_of, text)


def items(text: str) -> tuple[float, float]:
    """Items of one step before and after: "64", "64,128"."""
    from rules.gates.limits import items_of

    return _or_refused(items_of, text)


def gate_file(text: str) -> Gates:
    """The limits in a TOML file."""
    from rules.gates.limits import gates_of

    try:
        stated = Path(text).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise argparse.ArgumentTypeError(f"{text} could not be read: {reason}") from error
    return _or_refused(gates_of, stated, f"{text}: ")


def _or_refused(read: Callable[[str], Read], text: str, where: str = "") -> Read:
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{where}{error}") from error


def threshold(text: str) -> tuple[str, float]:
    """The key and the value of NAME=VALUE."""
    from rules.terms import known_thresholds

    known = {each.key: each for each in known_thresholds()}
    name, _, written = text.partition("=")
    if name not in known:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
    wanted = known[name]
    value = wanted.parsed(written)
    if value is None:
        bounds = f"{wanted.written(wanted.least)} to {wanted.written(wanted.most)}"
        raise argparse.ArgumentTypeError(f"{name} must be {bounds}, not {written!r}")
    return name, value


def add_thresholds(parser: argparse.ArgumentParser) -> None:
    """The option that changes what a rule decides by."""
    parser.add_argument(
        "--threshold",
        action="append",
        type=threshold,
        default=[],
        metavar="NAME=VALUE",
        help="override a threshold, such as least-share=5%%; docs/rules.md lists them",
    )


def add_gates(parser: argparse.ArgumentParser) -> None:
    """The option that names a file of limits."""
    parser.add_argument(
        "--gates",
        action=NamesText,
        read=gate_file,
        metavar="FILE.toml",
        help="file with a project's limits and thresholds; see docs/gates.md",
    )


def thresholds_of(options: argparse.Namespace) -> Thresholds:
    """What ``add_thresholds`` declared, which is stronger than what the file of ``add_gates`` says."""
    from rules.terms import Thresholds

    gates: Gates | None = getattr(options, "gates", None)
    return Thresholds({**(gates.thresholds.chosen if gates else {}), **dict(options.threshold)})


def add_store(parser: argparse.ArgumentParser) -> None:
    """The option that says where kept runs lie."""
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE.sqlite",
        help="where runs are saved (default: the user's data folder)",
    )


_HELP = {
    "html": "write a self-contained page",
    "pdf": "write the page as PDF",
    "markdown": "write Markdown for a review comment or a build summary",
    "junit": "write the gate's result as JUnit XML",
    "sarif": "write the findings as SARIF with their source lines, for code review and editors",
}
_OF_RUNS = ("html", "pdf", "markdown", "junit")


def folder(text: str) -> tuple[str, str]:
    """The value of --map: RECORDED=HERE."""
    recorded, mark, here = text.partition("=")
    if not (recorded and mark and here):
        raise argparse.ArgumentTypeError(f"{text!r} is not RECORDED=HERE, such as /home/me/train=.")
    return recorded, here


def add_reports(parser: argparse.ArgumentParser, kinds: Sequence[str] = _OF_RUNS) -> None:
    """One option for each kind of file."""
    for kind in kinds:
        parser.add_argument(f"--{kind}", action=NamesOutput, metavar="FILE", help=_HELP[kind])


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
