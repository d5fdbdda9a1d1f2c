"""What is decoded into classes: msgspec reads a class for the first time in one thread alone.

It keeps what it knows of a class before it knows all of it, and a second thread that then asks ends the process.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, TypeVar

import msgspec

from parsers.files.base import Source
from parsers.model import Malformed

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")
_READING = threading.Lock()


@cache
def _decoder(form: Any, kind: Any) -> Any:
    return form.Decoder(kind)


def _decoded(form: Any, content: bytes | str | msgspec.Raw, kind: Any) -> Any:
    with _READING:
        decoder = _decoder(form, kind)
    return decoder.decode(content)


def from_json(content: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """A value of this type; raises ``msgspec.DecodeError`` and, where it is another, ``msgspec.ValidationError``."""
    value: T = _decoded(msgspec.json, content, kind)
    return value


def from_json_of(source: Source, content: bytes, kind: type[T], what: str, hint: str) -> T:
    """The same of what a source holds: ``Malformed`` says that ``what`` cannot be read."""
    try:
        return from_json(content, kind)
    except UNREADABLE as error:
        raise Malformed(source.path, f"{what} cannot be read ({error}).", hint) from error


def from_msgpack(content: bytes, kind: type[T]) -> T:
    """The same of MessagePack."""
    value: T = _decoded(msgspec.msgpack, content, kind)
    return value
