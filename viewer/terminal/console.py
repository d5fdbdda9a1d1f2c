"""What a command reads and writes: its words, files that were named or come from standard input, results, progress."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from parsers.model import Progress, TraceError
from parsers.model.late import dataclass, regex
from viewer.appearance.plain_text import one_line  # here: what cannot open a file can still complain
from viewer.terminal import streams
from viewer.terminal.exit_codes import BAD_INPUT

if TYPE_CHECKING:
    from parsers.files.private_folder import PrivateFolder
    from parsers.model import Trace

_HALVES = regex("[\ud800-\udfff]")  # of characters, which a strict reader of JSON refuses
_NO_ASCII = regex(r"[^\x00-\x7f]+")


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


MIN_LIKENESS = 0.75  # of a wrong word to the one that may be meant: --jsn, diagnos
MAX_UNKNOWN = 3  # words that nobody understands and that are still named


class CommandParser(argparse.ArgumentParser):
    """Of the program, or of one of its commands."""

    _words: Sequence[str] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What each word means; ends the program where one means nothing."""
        self._words = args
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._about(unknown))
        return options, unknown

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """An empty word is what is left of a variable that was never set, and as a path it is the current folder."""
        if (
            "" in arg_strings
            and action.type in (None, Path)
            and action.nargs not in (argparse.REMAINDER, argparse.PARSER)
        ):
            raise argparse.ArgumentError(
                action, "the value is empty: a variable of the script may not be set"
            )
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        files = [word for word in self._words or () if word[:1] == "-" and os.path.lexists(word)]
        if files:
            message = f"{message} (write the name of the file {files[0]} as .{os.sep}{files[0]})"
        complain(f"{message.rstrip('.')}. All options: {self.prog} --help")
        self.exit(BAD_INPUT)

    def _about(self, unknown: Sequence[str]) -> str:
        said = [self._about_word(word) for word in unknown[:MAX_UNKNOWN]]
        more = f" and {len(unknown) - MAX_UNKNOWN} more words" if len(unknown) > MAX_UNKNOWN else ""
        return f"unknown: {', '.join(said)}{more}"

    def _about_word(self, word: str) -> str:
        name = word.partition("=")[0]
        close = nearest(name, self._option_string_actions)
        if name.startswith("-") and close:
            return f"{name} (did you mean {close}?)"
        return word


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that may be meant; empty where none looks like it."""
    import difflib

    return next(iter(difflib.get_close_matches(word, known, 1, MIN_LIKENESS)), "")


@dataclass(frozen=True, slots=True)
class Output:
    """A file or folder that a command writes, and the option that names it; "" where it has its place."""

    name: str
    path: Path
    option: str


class NamesOutput(argparse.Action):
    """Of every option that names a file or a folder to be written: ``Namespace.outputs`` lists them all."""

    def __call__(self, _: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        path = Path(values)
        setattr(namespace, self.dest, path)
        namespace.outputs = [*getattr(namespace, "outputs", ()), Output(self.dest, path, option or "")]


class NamesText(argparse.Action):
    """Of an option whose file is read at once, by ``read``: the file's name is kept beside what it holds."""

    def __init__(self, *args: Any, read: Callable[[str], Any], **more: Any) -> None:
        super().__init__(*args, **more)
        self.read = read

    def __call__(self, _: Any, namespace: argparse.Namespace, values: Any, __: str | None = None) -> None:
        try:
            setattr(namespace, self.dest, self.read(values))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from error
        setattr(namespace, f"{self.dest}_file", values)


def refuse_to_lose(options: argparse.Namespace) -> None:
    """Raise ``TraceError`` where a result would replace what the command reads, another result or a recording."""
    from viewer.user_data.storage import RecordingThere, no_recording, refuse_recordings

    outputs: Sequence[Output] = getattr(options, "outputs", ())
    written = {output.name for output in outputs}
    read = list(_words([each for name, each in vars(options).items() if name not in written]))
    for number, output in enumerate(outputs):
        if any(_are_one(output.path, word) for word in read):
            raise TraceError(
                output.path,
                "The command reads this file, so no result may replace it.",
                _another_name(output),
            )
        if any(_are_one(output.path, other.path) for other in outputs[:number]):
            raise TraceError(
                output.path, "Two results cannot go into one file.", "Name another for one of them."
            )
        try:
            refuse_recordings(output.path, getattr(options, "replaces", no_recording))
        except RecordingThere as error:
            raise TraceError(
                output.path, f"The result cannot be written: {error.strerror}.", _another_name(output)
            ) from error


def _another_name(output: Output) -> str:
    if not output.option:
        return "Name another file for the result."
    return (
        f"Name another file: {output.option} takes the next word, which is the first recording if the shell "
        "expanded a pattern such as rank*.json."
    )


def _words(value: Any) -> Iterator[str | Path]:
    """Every text and path among the options that may name a file to read."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _words(each)
    elif isinstance(value, str | Path):
        yield value


def _are_one(path: Path, word: str | Path) -> bool:
    """Whether both are the same file or folder, by whatever name; a pipe or a device is never replaced."""
    try:
        if path.is_file() or path.is_dir():
            return os.path.samestat(path.stat(), os.stat(0 if word == "-" else word))
        return not path.exists() and os.path.realpath(path) == os.path.realpath(word)
    except (OSError, ValueError):
        return False
