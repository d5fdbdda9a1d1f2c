"""Runs the target as its own interpreter would: as ``__main__``, with its arguments, path and exit code."""

from __future__ import annotations

import io
import os
import runpy
import sys
import traceback
import types
from importlib.machinery import SourceFileLoader
from typing import Any, Callable, List


def exit_code_of(code: Any) -> int:
    """The process exit code that ``sys.exit(code)`` stands for; text goes to standard error as Python does it."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def run(target: List[str], on_failure: Callable[[str, str], None]) -> int:
    """Run ``script.py ARGS``, a folder or zip with ``__main__``, or ``-m module ARGS``; the exit code.

    ``SystemExit`` becomes its code; any other exception is printed without the runner's own frames and
    ``on_failure(last line, traceback)`` is called.
    """
    try:
        if target[0] == "-m":
            _run_module(target[1:])
        else:
            _run_path(target)
    except SystemExit as stop:
        return exit_code_of(stop.code)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        _print_own_traceback(error)
        shown = traceback.format_exception(type(error), error, error.__traceback__)
        on_failure(shown[-1].strip(), "".join(shown))
        return 1
    return 0


def _run_module(words: List[str]) -> None:
    if not words:
        raise SystemExit("-m needs the name of a module")
    sys.argv = ["-m", *words[1:]]
    sys.path.insert(0, os.getcwd())
    sys.argv[0] = words[0]
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def _run_path(words: List[str]) -> None:
    path = words[0]
    sys.argv = list(words)
    if not os.path.isfile(path) or not _looks_like_source(path):
        if not os.path.exists(path):
            raise SystemExit("cannot open {!r}: no such file in {}".format(path, os.getcwd()))
        runpy.run_path(path, run_name="__main__")
        return
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    with io.open_code(os.path.abspath(path)) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=path,
        __builtins__=__builtins__,
        __loader__=SourceFileLoader("__main__", path),
        __cached__=None,
    )
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _looks_like_source(path: str) -> bool:
    with open(path, "rb") as file:
        return not file.read(4).startswith((b"PK\x03\x04", b"PK\x05\x06"))


def _print_own_traceback(error: BaseException) -> None:
    """What Python itself would print: frames of the runner and of runpy above the script are left out."""
    trace: types.TracebackType | None = error.__traceback__
    here = os.path.dirname(os.path.abspath(__file__))
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename, here):
        trace = trace.tb_next
    error.__traceback__ = trace
    show: Callable[..., Any] = sys.excepthook
    sys.stdout.flush()
    try:
        show(type(error), error, trace)
    except BaseException:
        traceback.print_exception(type(error), error, trace)
    sys.stderr.flush()


def _is_ours(filename: str, here: str) -> bool:
    return (
        os.path.abspath(filename).startswith(here)
        or filename.startswith("<frozen ")
        or filename == runpy.__file__
    )
