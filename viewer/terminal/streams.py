"""The three standard streams, which may be closed, full, or unable to show every letter."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_INPUT, _OUTPUT, _ERRORS = range(3)


def prepare() -> None:
    """Have the streams say which of them fails, and occupy what was closed before a file of ours takes its place.

    Reading a closed input and writing a closed output fail, as they should; complaints go nowhere.
    """
    for number in (_INPUT, _OUTPUT, _ERRORS):
        try:
            os.fstat(number)
        except OSError:
            # Where a program has no console, none of them is there, and none must fail.
            fails = number != _ERRORS and sys.platform != "win32"
            reads = (number == _INPUT) != fails
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY if reads else os.O_WRONLY), True)
    encoding, lines = ("utf-8", False) if sys.stdout is None else (sys.stdout.encoding, sys.stdout.isatty())
    output = io.BufferedWriter(_Stream(_OUTPUT, "w", closefd=False))
    sys.stdout = io.TextIOWrapper(output, encoding, "replace", line_buffering=lines)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(
            io.BufferedReader(_Stream(_INPUT, "r", closefd=False)), "utf-8", "replace"
        )
    if sys.stderr is None:
        errors = io.BufferedWriter(io.FileIO(_ERRORS, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(errors, "utf-8", "replace", line_buffering=True)
    elif isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="replace")


class _Stream(io.FileIO):
    """Names itself in its errors, by which an answer that cannot be written is told from a file that cannot be read."""

    def write(self, data: ReadableBuffer, /) -> int:
        with self._named():
            return super().write(data)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        with self._named():
            return super().readinto(buffer)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = ("standard input", "standard output")[self.fileno()]
            if error.errno == errno.EBADF:
                error.strerror = "It is closed"
            raise


def give_up(stream: TextIO) -> None:
    """Where a stream cannot be written, let nothing try again when the process ends."""
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
