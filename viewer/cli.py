"""The command line: opens the window, or runs one of ``viewer/commands`` without Qt."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from parsers.collecting import collect_seldom
from parsers.files.private_folder import clear_abandoned
from parsers.model import SYSTEM_ERRORS, Cancelled, TraceError, refused_by_system
from viewer import commands
from viewer.desktop.ending import end_tidily_when_told, ending_at_once
from viewer.terminal import streams
from viewer.terminal.console import CommandParser, complain, nearest, program_version, refuse_to_lose
from viewer.terminal.exit_codes import BAD_INPUT, BROKEN, DONE, INTERRUPTED
from viewer.terminal.memory_limit import is_shortage

if TYPE_CHECKING:
    from viewer.terminal.kept_answers import Question


def main(arguments: Sequence[str] | None = None, begin: Callable[[], None] = lambda: None) -> int:
    """Run one command; returns the process's exit code. ``begin`` is called before a command does any work."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    collect_seldom()
    end_tidily_when_told()
    clear_abandoned()
    try:
        options = _options(arguments)
        refuse_to_lose(options)
        code = _run(options, begin)
        sys.stdout.flush()  # here, because a full disk at the end of the process would be its exit code
        return code
    except (KeyboardInterrupt, Cancelled):
        return INTERRUPTED
    except BrokenPipeError:
        streams.give_up(sys.stdout)
        return DONE
    except (TraceError, *SYSTEM_ERRORS) as error:
        streams.give_up(sys.stdout)
        complain(error if isinstance(error, TraceError) else refused_by_system(error, _subject(arguments)))
        return BAD_INPUT
    except Exception as error:
        streams.give_up(sys.stdout)
        if is_shortage(error):
            complain(refused_by_system(MemoryError(), _subject(arguments)))
            return BAD_INPUT
        import traceback

        traceback.print_exc()
        print("stallscope: this is a bug in Stallscope. Please report it.", file=sys.stderr)
        return BROKEN


def _run(options: argparse.Namespace, begin: Callable[[], None]) -> int:
    """Tell what was found out before, where the question is the same; else run the command."""
    asked: Question | None = options.question(options) if "question" in options else None
    if asked is not None and (known := asked.kept()) is not None:
        return known.tell()
    begin()
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def _subject(arguments: Sequence[str]) -> str:
    """What an error is about that names no file itself."""
    return next((word for word in arguments[1:] if not word.startswith("-")), "output")


def command_names() -> dict[str, str]:
    """Command -> the name of its module, which ends in an underscore where Python has a word of that name."""
    found = [each.name for each in pkgutil.iter_modules(commands.__path__)]
    return {name.rstrip("_").replace("_", "-"): f"{commands.__name__}.{name}" for name in found}


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    try:
        return _parser(arguments).parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()  # help and version
        raise


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    known = command_names()
    parser = CommandParser(
        prog="stallscope",
        description="Opens GPU profiler recordings and says what the GPU is waiting for, how much a fix would give, "
        "where to see it, and what to change.",
        epilog=f"commands: {', '.join(known)}; without one the files open in the window",
    )
    parser.add_argument("--version", action=_Version)
    module = known.get(arguments[0]) if arguments else None
    if module is None:
        _declare_window(parser)
    else:
        importlib.import_module(module).declare(parser.add_subparsers(required=True))
    return parser


class _Version(argparse.Action):
    """Looks the version up only where it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(
            option_strings, argparse.SUPPRESS, nargs=0, help="show the program's version and exit"
        )

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"stallscope {program_version()}")
        parser.exit()


def _declare_window(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a recording, ranks of one run, or a folder")
    parser.add_argument("--at", metavar="TIME", help="show this moment, such as 31.2ms from the start")
    parser.add_argument(
        "--separate", action="store_true", help="don't open the files in a window that is already running"
    )
    desktop = parser.add_mutually_exclusive_group()
    desktop.add_argument(
        "--install-desktop-files",
        action="store_true",
        help="add the program and its file types to your desktop (for pipx and uv; packages do it themselves)",
    )
    desktop.add_argument("--remove-desktop-files", action="store_true", help="remove them again")
    parser.set_defaults(run=_open_window)


def _open_window(options: argparse.Namespace) -> int:
    if options.install_desktop_files or options.remove_desktop_files:
        from viewer.desktop import desktop_files

        done = desktop_files.install() if options.install_desktop_files else desktop_files.remove()
        print("\n".join(done))
        return DONE
    first = next(iter(options.paths), "")
    if (meant := nearest(first, command_names())) and not os.path.lexists(first):
        complain(f"{first} is neither a command nor a file. Did you mean `stallscope {meant}`?")
        return BAD_INPUT
    from viewer.start.opening import has_display

    if not has_display():
        complain(
            "there is no display to open a window on. "
            "Use `stallscope diagnose PATH` here, or start it in a desktop session."
        )
        return BAD_INPUT
    with ending_at_once():
        from viewer.app import local_path, run

    at = None
    if options.at:
        from parsers.model.units import parse_duration

        at = parse_duration(options.at)
        if at is None:
            complain(f"{options.at!r} is not a time. Write it like 31.2ms.")
            return BAD_INPUT
    return run([local_path(word) for word in options.paths], at, options.separate)


if __name__ == "__main__":
    streams.prepare()
    sys.exit(main())
