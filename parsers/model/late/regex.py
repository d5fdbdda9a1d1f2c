"""``regex`` is ``re.compile``, but the expression is compiled when it is first used.

Of the 450 expressions in what a small diagnosis loads it uses a third; compiling them all took a tenth of its time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any


class LateRegex:
    """Has what ``re.Pattern`` has."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._stated = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._stated), name)
        setattr(self, name, found)
        return found

    def _compiled(self, name: str) -> Any:
        return vars(self).get(name) or self.__getattr__(name)

    # handed over as a function, each compiles nothing before it is called

    def match(self, *said: Any) -> Any:
        return self._compiled("match")(*said)

    def search(self, *said: Any) -> Any:
        return self._compiled("search")(*said)

    def fullmatch(self, *said: Any) -> Any:
        return self._compiled("fullmatch")(*said)


if TYPE_CHECKING:
    regex = re.compile
else:
    regex = LateRegex
