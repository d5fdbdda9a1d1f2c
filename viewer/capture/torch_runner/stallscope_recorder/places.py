"""Where the user's own code calls what the recorder watches: file and line of each range, without recording stacks."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from typing import Any, Callable, Dict, List, Tuple

from .callers import users_frame

MAX_PLACES = 64
"""Of one recording; what is called from more is called in so many ways that no line stands for it."""
KEY = "stallscopePlaces"
SCALAR_READS = ("item", "tolist", "__float__", "__int__", "__bool__")
"""Methods of a tensor that wait for its value.

``cpu`` and ``to`` are left as they are: kinds of tensors of other libraries find their own versions of these by the
function that stands there.
"""
READ = "aten::item"

Place = Tuple[str, str, int, str]


class Places:
    """Counts from where each name was opened."""

    def __init__(self) -> None:
        self._counts: Dict[Place, int] = {}

    def note(self, name: str) -> None:
        """What is on the stack now calls what has this name."""
        frame = users_frame()
        if frame is None:
            return
        code = frame.f_code
        place = (name, code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name))
        if place in self._counts or len(self._counts) < MAX_PLACES:
            self._counts[place] = self._counts.get(place, 0) + 1

    def taken(self) -> bytes:
        """The first key of a trace, an object of JSON, with what was noted since the last time; empty for nothing."""
        counts, self._counts = self._counts, {}
        if not counts:
            return b""
        listed: List[Any] = [
            [name, os.path.abspath(file), line, function, count]
            for (name, file, line, function), count in sorted(counts.items())
        ]
        return '"{}": {},'.format(KEY, json.dumps(listed)).encode()


class ScalarReads:
    """Notes the places of methods that read one value of a tensor, where that is on a GPU."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._undo: List[Callable[[], Any]] = []

    def install(self) -> None:
        """Put a stand-in for each method; ``remove`` takes them away again."""
        torch = importlib.import_module("torch")
        is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
        for name in SCALAR_READS:
            self._watch(torch.Tensor, name, is_compiling)

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _watch(self, owner: Any, name: str, is_compiling: Callable[[], bool]) -> None:
        original = getattr(owner, name)
        places = self._places

        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_compiling():
                with contextlib.suppress(Exception):
                    if tensor.device.type != "cpu":
                        places.note(READ)
            return original(tensor, *args, **kwargs)

        own = name in vars(owner)
        setattr(owner, name, read)
        self._undo.append((lambda: setattr(owner, name, original)) if own else (lambda: delattr(owner, name)))
