"""The nearest frame on the stack that stands in the user's own code."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any, Dict

_LIBRARIES = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in {
        os.path.dirname(os.path.abspath(__file__)),
        *(sysconfig.get_path(name) or os.devnull for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_USERS: Dict[str, bool] = {}


def users_frame() -> Any:
    """The frame, or ``None`` where only libraries are on the stack."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def _is_users(file: str) -> bool:
    if file not in _USERS:
        real = os.path.realpath(file)
        own = not any(part in real for part in _INSTALLED) and not real.startswith(_LIBRARIES)
        _USERS[file] = own and not file.startswith("<") and os.path.isfile(real)
    return _USERS[file]
