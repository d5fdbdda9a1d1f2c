"""The failures a user can act on: one sentence of problem, one of hint."""

from __future__ import annotations

import errno
from pathlib import Path


class TraceError(Exception):
    """A file, or what lies at an address, that cannot be used, said so that its owner can do something about it.

    ``problem`` is one plain sentence; ``hint`` says what to do next.
    """

    def __init__(self, path: Path | str, problem: str, hint: str = "") -> None:
        super().__init__(f"{path}: {problem}" + (f" {hint}" if hint else ""))
        self.where = path
        self.path = Path(path)
        self.problem = problem
        self.hint = hint

    def __reduce__(self) -> tuple[type[TraceError], tuple[Path | str, str, str]]:
        return type(self), (self.where, self.problem, self.hint)


class UnknownFormat(TraceError):
    """No parser recognises the first bytes of the file."""


class Malformed(TraceError):
    """A known format, damaged beyond what can be repaired."""


class Excessive(Exception):
    """A file makes more of something than any recording has; ``what`` is plural."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(what, most)
        self.what, self.most = what, most

    def about(self, path: Path) -> TraceError:
        """The same, said of a file."""
        return TraceError(
            path,
            f"It names more than {self.most:,} {self.what}, far more than any recording would.",
            "Record it again.",
        )


class Cancelled(Exception):
    """The user stopped the work; nothing is wrong."""


NO_ROOM = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
SYSTEM_ERRORS = (OSError, UnicodeError, MemoryError, RecursionError)


def refused_by_system(error: BaseException, path: Path | str) -> TraceError:
    """What one of ``SYSTEM_ERRORS`` means to the owner of ``path``; an ``OSError`` names its own file if it can."""
    if isinstance(error, MemoryError):
        return TraceError(
            path, "There is not enough memory for it.", "Open a shorter recording, or fewer ranks."
        )
    if isinstance(error, RecursionError):
        return TraceError(
            path, "Its contents are nested too deeply to be read.", "Record or export it again."
        )
    if isinstance(error, UnicodeError):
        return TraceError(path, f"Its name or contents are not valid text ({error}).", "Rename or export it.")
    if not isinstance(error, OSError):
        raise error
    where = error.filename if isinstance(error.filename, (str, Path)) else path
    if error.errno in NO_ROOM:
        return TraceError(
            where,
            "There is no space left on the disk.",
            "Free some space, or set TMPDIR to a folder with enough space.",
        )
    return TraceError(where, f"{error.strerror or error}.", "Check that it exists and that you may use it.")
