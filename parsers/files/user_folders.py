"""The program's own folders among the user's; imports next to nothing, because every window asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

_NO_FOLDER = Path(os.devnull, "stallscope")  # below a file: whoever tries to keep something there is refused


def user_folder(find: Callable[..., Path]) -> Path:
    """The program's folder in one of the user's own, which platformdirs finds; where a user has no home, one that
    nothing can be kept in.
    """
    try:
        found = find("stallscope", appauthor=False)
    except RuntimeError:
        return _NO_FOLDER
    return found if found.is_absolute() else _NO_FOLDER
