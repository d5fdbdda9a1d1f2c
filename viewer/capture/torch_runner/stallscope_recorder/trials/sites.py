"""Where the script's own code makes an object or a call: the nearest line that belongs to no library."""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, NamedTuple, Optional, Tuple

from ..callers import users_frame

MAX_SITES = 64


class Site(NamedTuple):
    """A call in a file of the user; ``column`` is -1 where this Python does not know it, ``called`` names a class."""

    what: str
    file: str
    line: int
    column: int = -1
    function: str = ""
    called: str = ""


class Edit(NamedTuple):
    """How somebody would write a change into their own code, at every site of what ``at`` names.

    ``arguments`` are set in the call and those in ``without`` taken out of it, ``around`` is the context manager that
    the statement goes into, ``after`` a line that follows where the object of the call is assigned (``{}`` stands for
    it), ``once`` a line after the imports.
    """

    at: str
    arguments: Tuple[Tuple[str, str], ...] = ()
    without: Tuple[str, ...] = ()
    around: str = ""
    after: str = ""
    once: str = ""


def site_of(what: str, called: str = "") -> Optional[Site]:
    """The nearest call on the stack that stands in the user's own code; ``None`` where there is none."""
    frame = users_frame()
    if frame is None:
        return None
    line, column = _position(frame)
    file = os.path.realpath(frame.f_code.co_filename)
    return Site(what, file, line, column, frame.f_code.co_name, called)


def _position(frame: Any) -> Tuple[int, int]:
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is not None:
        line, _, column, _ = next(islice(positions(), frame.f_lasti // 2, None), (None,) * 4)
        if line is not None and column is not None:
            return line, column
    return frame.f_lineno, -1
